package element

import "fmt"

// Reduction is how two elements become one.
type Reduction uint8

// The reductions. A mean is a Sum whose result is scaled.
const (
	None Reduction = iota // a call that reduces nothing
	Sum
	Prod
	Min
	Max
	And // bitwise and for integers only, as are Or and Xor
	Or
	Xor

	reductions
)

var reductionNames = [reductions]string{"", "sum", "prod", "min", "max", "and", "or", "xor"}

// Reductions returns all of them but None.
func Reductions() []Reduction { return []Reduction{Sum, Prod, Min, Max, And, Or, Xor} }

// Valid reports whether r is one of the constants.
func (r Reduction) Valid() bool { return r < reductions }

// Bitwise reports whether r takes integers only.
func (r Reduction) Bitwise() bool { return r >= And && r <= Xor }

// String returns the name in lower case; None has an empty one.
func (r Reduction) String() string {
	if !r.Valid() {
		return fmt.Sprintf("reduction(%d)", uint8(r))
	}
	return reductionNames[r]
}
