package kernel

// The operations of a chain. acc is the accumulator. x is the operand that P points to: a
// number for every element. The name's end is S if it is one number for all, F16 or BF16
// if it is stored in 16 bits. R stands for exchanged operands. Every operation rounds as
// the kernel of its name.
const (
	ChainLoad = iota // acc = x
	ChainLoadS
	ChainLoadF16
	ChainLoadBF16
	ChainStore // x = acc
	ChainStoreF16
	ChainStoreBF16
	ChainRoundF16  // acc = acc rounded to 16 bits
	ChainRoundBF16 // acc = acc rounded to 16 bits
	ChainNeg       // acc = -acc
	ChainAbs       // acc = |acc|
	ChainSign      // acc = Sign(acc)
	ChainSquare    // acc = acc*acc
	ChainSqrt      // acc = √acc
	ChainRsqrt     // acc = 1/√acc
	ChainRecip     // acc = 1/acc
	ChainFloor     // acc = acc rounded down
	ChainCeil      // acc = acc rounded up
	ChainReLU      // acc = max(acc, 0)
	ChainAdd       // acc = acc + x
	ChainAddS
	ChainAddF16
	ChainAddBF16
	ChainSub // acc = acc - x
	ChainSubS
	ChainSubF16
	ChainSubBF16
	ChainRSub // acc = x - acc
	ChainRSubS
	ChainRSubF16
	ChainRSubBF16
	ChainMul // acc = acc * x
	ChainMulS
	ChainMulF16
	ChainMulBF16
	ChainDiv // acc = acc / x
	ChainDivS
	ChainDivF16
	ChainDivBF16
	ChainRDiv // acc = x / acc
	ChainRDivS
	ChainRDivF16
	ChainRDivBF16
	ChainMax // acc = Max(acc, x)
	ChainMaxS
	ChainMaxF16
	ChainMaxBF16
	ChainRMax // acc = Max(x, acc)
	ChainRMaxS
	ChainRMaxF16
	ChainRMaxBF16
	ChainMin // acc = Min(acc, x)
	ChainMinS
	ChainMinF16
	ChainMinBF16
	ChainRMin // acc = Min(x, acc)
	ChainRMinS
	ChainRMinF16
	ChainRMinBF16
	ChainReLUGrad // acc = ReLUGrad(acc, x)
	ChainReLUGradS
	ChainReLUGradF16
	ChainReLUGradBF16
	ChainRReLUGrad // acc = ReLUGrad(x, acc)
	ChainRReLUGradS
	ChainRReLUGradF16
	ChainRReLUGradBF16
	ChainTanhGrad // acc = TanhGrad(acc, x)
	ChainTanhGradS
	ChainTanhGradF16
	ChainTanhGradBF16
	ChainRTanhGrad // acc = TanhGrad(x, acc)
	ChainRTanhGradS
	ChainRTanhGradF16
	ChainRTanhGradBF16
	ChainSigmoidGrad // acc = SigmoidGrad(acc, x)
	ChainSigmoidGradS
	ChainSigmoidGradF16
	ChainSigmoidGradBF16
	ChainRSigmoidGrad // acc = SigmoidGrad(x, acc)
	ChainRSigmoidGradS
	ChainRSigmoidGradF16
	ChainRSigmoidGradBF16

	chainCodes
)

// ChainOp is one step of a chain: an operation and the address of its operand, which may
// have numbers of 16 bits. The assembly reads it in this layout.
type ChainOp struct {
	Code int
	P    *float32
}
