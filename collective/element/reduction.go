package element

import "fmt"

// Reduction is how two elements become one.
//
// Floats: Min and Max return NaN if an element is NaN, and take -0 as less than +0.
// Integers: Sum and Prod wrap around.
type Reduction uint8

// The reductions.
const (
	None Reduction = iota // a call that reduces nothing
	Sum
	Prod
	Min
	Max
	And // bitwise and for integers only, as are Or and Xor
	Or
	Xor

	// Mean is a Sum that is divided by the number of operands before it is rounded. Users
	// ask for it; calls and programs carry Sum and a scale, so Mean is not Valid in them.
	Mean
)

var reductionNames = [Mean + 1]string{"", "sum", "prod", "min", "max", "and", "or", "xor", "mean"}

// Reductions returns all that fold two elements: not None and not Mean.
func Reductions() []Reduction { return []Reduction{Sum, Prod, Min, Max, And, Or, Xor} }

// Valid reports whether r may stand in a call or a program: all but Mean may.
func (r Reduction) Valid() bool { return r < Mean }

// Bitwise reports whether r takes integers only.
func (r Reduction) Bitwise() bool { return r >= And && r <= Xor }

// String returns the name in lower case; None has an empty one.
func (r Reduction) String() string {
	if r > Mean {
		return fmt.Sprintf("reduction(%d)", uint8(r))
	}
	return reductionNames[r]
}
