package kernel

// The operations of a chain. acc is the accumulator. x is the operand that P points to: a
// number for every element, or one number for all where the name ends in S. R stands for
// exchanged operands. Every operation rounds as the kernel of its name.
const (
	ChainLoad   = iota // acc = x
	ChainLoadS         // acc = x
	ChainStore         // x = acc
	ChainNeg           // acc = -acc
	ChainAbs           // acc = |acc|
	ChainSquare        // acc = acc*acc
	ChainSqrt          // acc = √acc
	ChainReLU          // acc = max(acc, 0)
	ChainAdd           // acc = acc + x
	ChainAddS
	ChainSub // acc = acc - x
	ChainSubS
	ChainRSub // acc = x - acc
	ChainRSubS
	ChainMul // acc = acc * x
	ChainMulS
	ChainDiv // acc = acc / x
	ChainDivS
	ChainRDiv // acc = x / acc
	ChainRDivS
	ChainMax // acc = Max(acc, x)
	ChainMaxS
	ChainRMax // acc = Max(x, acc)
	ChainRMaxS
	ChainMin // acc = Min(acc, x)
	ChainMinS
	ChainRMin // acc = Min(x, acc)
	ChainRMinS

	chainCodes
)

// ChainOp is one step of a chain: an operation and the address of its operand. The
// assembly reads it in this layout.
type ChainOp struct {
	Code int
	P    *float32
}
