// Package enginetest has tools for tests of engines: the conformance suite that every
// tensor.Engine passes ([Run]), an engine that is slow and simple ([Reference]), and a
// generator of random programs ([Generate]).
//
// Comparison of floats: where IEEE 754 rounds correctly (+ - * / sqrt) and where elements
// are only moved or chosen, bits must be equal. Elsewhere an engine may differ by as much
// as a few units in the last place of the operands explain. The suite evaluates the same
// operation on disturbed operands and takes the spread as the tolerance. So no operation
// needs a tolerance by hand, and an ill-conditioned sum gets a larger one than a
// well-conditioned sum. See noise.go.
package enginetest
