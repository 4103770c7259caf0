// Package data reads what models are trained on: image sets in the IDX format
// (MNIST and its relatives), byte-level text, and synthetic values made by a
// formula. Its samplers are pure functions of a seed and an example number, so
// that a run can be resumed, repeated, or divided among ranks without any state
// to save.
//
// Everything a file holds is checked before it is used, and an error names the
// file, the value found and the value expected. Nothing here downloads.
package data
