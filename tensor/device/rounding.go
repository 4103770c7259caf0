package device

// Rounder is implemented by a Device whose results may have other bits than those of
// another device of its kind. The workers of a session compute some values twice and rely
// on equal bits, so all of them have the same Rounding.
type Rounder interface {
	// Rounding names what the bits depend on, empty for nothing but the kind.
	Rounding() string
}
