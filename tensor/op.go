package tensor

import (
	"fmt"
	"strings"
)

// Op is the number of an operation. Numbers travel in programs: they are never changed or
// reused.
type Op uint16

// The operations. The op table (optable.go, and docs/ops.md made from it) describes them.
const (
	OpInvalid Op = 0

	// leaves
	OpFull   Op = 1
	OpArange Op = 2
	OpRand   Op = 3
	OpRandN  Op = 4

	// elementwise, one operand
	OpNeg      Op = 20
	OpAbs      Op = 21
	OpSign     Op = 22
	OpExp      Op = 23
	OpLog      Op = 24
	OpSqrt     Op = 25
	OpRsqrt    Op = 26
	OpRecip    Op = 27
	OpSquare   Op = 28
	OpSin      Op = 29
	OpCos      Op = 30
	OpTanh     Op = 31
	OpSigmoid  Op = 32
	OpRelu     Op = 33
	OpGelu     Op = 34
	OpGeluTanh Op = 35
	OpSilu     Op = 36
	OpErf      Op = 37
	OpFloor    Op = 38
	OpCeil     Op = 39
	OpNot      Op = 40
	OpCast     Op = 41
	OpClamp    Op = 42

	// elementwise, two operands and more
	OpAdd   Op = 60
	OpSub   Op = 61
	OpMul   Op = 62
	OpDiv   Op = 63
	OpPow   Op = 64
	OpMax   Op = 65
	OpMin   Op = 66
	OpEq    Op = 67
	OpNe    Op = 68
	OpLt    Op = 69
	OpLe    Op = 70
	OpGt    Op = 71
	OpGe    Op = 72
	OpAnd   Op = 73
	OpOr    Op = 74
	OpXor   Op = 75
	OpWhere Op = 76

	// gradients of elementwise operations that have a kernel
	OpTanhGrad     Op = 90
	OpSigmoidGrad  Op = 91
	OpReluGrad     Op = 92
	OpGeluGrad     Op = 93
	OpGeluTanhGrad Op = 94
	OpSiluGrad     Op = 95

	// updates of optimizers, and dropout: elementwise with scalars
	OpAdamM   Op = 100
	OpAdamV   Op = 101
	OpAdamW   Op = 102
	OpSGD     Op = 103
	OpSGDM    Op = 104
	OpDropout Op = 105

	// reductions
	OpSum      Op = 120
	OpMean     Op = 121
	OpAmax     Op = 122
	OpAmin     Op = 123
	OpProd     Op = 124
	OpArgmax   Op = 125
	OpArgmin   Op = 126
	OpAny      Op = 127
	OpAll      Op = 128
	OpCumsum   Op = 129
	OpProdGrad Op = 130

	// views and movement
	OpReshape     Op = 140
	OpPermute     Op = 141
	OpExpand      Op = 142
	OpSlice       Op = 143
	OpConcat      Op = 144
	OpPad         Op = 145
	OpTril        Op = 146
	OpTriu        Op = 147
	OpIndexSelect Op = 148
	OpIndexAdd    Op = 149
	OpGather      Op = 150
	OpScatterAdd  Op = 151
	OpOneHot      Op = 152
	OpBarrier     Op = 153

	// products and composites
	OpMatmul           Op = 170
	OpSoftmax          Op = 171
	OpSoftmaxGrad      Op = 172
	OpLogSoftmax       Op = 173
	OpLogSoftmaxGrad   Op = 174
	OpCausalSoftmax    Op = 175
	OpLayerNorm        Op = 176
	OpLayerNormGradX   Op = 177
	OpLayerNormGradW   Op = 178
	OpRMSNorm          Op = 179
	OpRMSNormGradX     Op = 180
	OpRMSNormGradW     Op = 181
	OpRope             Op = 182
	OpCrossEntropy     Op = 183
	OpCrossEntropyGrad Op = 184
	OpConv2D           Op = 185
	OpConv2DGradX      Op = 186
	OpConv2DGradW      Op = 187
	OpMaxPool2D        Op = 188
	OpMaxPool2DGrad    Op = 189
	OpAvgPool2D        Op = 190
	OpAvgPool2DGrad    Op = 191

	opLimit Op = 192
)

// Class says how an operation moves data.
type Class uint8

// The classes.
const (
	ClassLeaf        Class = iota + 1 // makes a value from scalars
	ClassElementwise                  // out[i] depends on in[i] alone, operands broadcast
	ClassReduction                    // reduces dims
	ClassView                         // the same elements in another order, not copied
	ClassMovement                     // copies elements to other places
	ClassContraction                  // matrix products and convolutions
	ClassRow                          // works on whole rows: softmax, norms, losses
)

// String returns the name in lower case.
func (c Class) String() string {
	return [...]string{"?", "leaf", "elementwise", "reduction", "view", "movement", "contraction", "row"}[c]
}

// Kind divides the elementwise operations into those with common rules.
type Kind uint8

// The kinds.
const (
	KindOther      Kind = iota
	KindComparison      // a bool of two numbers
	KindLogic           // a bool of bools
	KindGradient        // the gradient of an elementwise operation
	KindUpdate          // an optimizer's update: the result replaces the first operand
)

// Gradient says whether autograd differentiates an operation.
type Gradient uint8

// The kinds of gradient.
const (
	NoGradient     Gradient = iota // piecewise constant or an integer
	Differentiable                 // has an entry in the table of package autograd
	// GradientOp is part of a gradient or an update, and is not differentiated again.
	GradientOp
)

// OpInfo is a row of the op table.
//
// The arguments of an instruction are MinTensors to MaxTensors tensors followed by its
// Scalars. In an elementwise operation with Weak set, a scalar may take the place of a
// tensor (2*x, where(c, x, 0)).
type OpInfo struct {
	Name       string
	Class      Class
	Kind       Kind
	MinTensors int
	MaxTensors int
	Scalars    []string // names of the scalar arguments, in order
	Ints       string   // names of the integer attributes, for documentation
	Weak       bool     // scalars may take the place of tensors
	Float      bool     // computes on floats: integer operands are cast to f32
	Fallible   bool     // can fail on the values (an index out of range)
	Random     bool     // takes its numbers from the counter-based generator
	Gradient   Gradient
	Doc        string

	takes dtypes // of the tensors but the one apart
	apart int    // the operand, from 1, of indices or a condition; 0: none
	shape func(c *inference) (Shape, error)
}

// dtypes are those that the tensors of an operation may have.
type dtypes uint8

const (
	anyDType dtypes = iota
	numbers         // no bool
	floats
	bools
)

// intCounts holds the number of integer attributes of every operation; -1 where it
// varies.
var intCounts = func() (n [opLimit]int) {
	for op, info := range opTable {
		switch {
		case strings.Contains(info.Ints, "...") || strings.HasSuffix(info.Ints, " a dim"):
			n[op] = -1
		case info.Ints != "":
			n[op] = strings.Count(info.Ints, ",") + 1
		}
	}
	return n
}()

// Valid reports whether o is an operation of the table.
func (o Op) Valid() bool { return o < opLimit && opTable[o].Name != "" }

// Info returns the operation's row of the table. The operation must be valid.
func (o Op) Info() *OpInfo { return &opTable[o] }

// String returns the name, op(N) of a number that is no operation.
func (o Op) String() string {
	if !o.Valid() {
		return fmt.Sprintf("op(%d)", uint16(o))
	}
	return opTable[o].Name
}

// Ops returns all operations in the order of their numbers.
func Ops() []Op {
	var l []Op
	for o := Op(0); o < opLimit; o++ {
		if o.Valid() {
			l = append(l, o)
		}
	}
	return l
}
