// Package enginetest has what tests of engines need: the conformance suite that every tensor.Engine passes ([Run]), an engine that is
// slow and easy to believe ([Reference]), and a generator of random programs ([Generate]).
//
// How floats are compared. Where IEEE 754 rounds correctly (+ - * / sqrt) and where elements are only moved or chosen, bits
// must be equal. Everywhere else an engine may differ by what a few units in the last place of the operands explain: the
// suite evaluates the same operation on disturbed operands and takes the spread as the measure, so that no operation needs
// a tolerance by hand and an ill-conditioned sum is forgiven what a well-conditioned one isn't. See noise.go.
package enginetest
