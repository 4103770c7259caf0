// Package data reads training data: image sets in the IDX format (MNIST and its
// relatives), byte-level text, tables of comma-separated values, NumPy's arrays, and
// synthetic values made by a formula. Its samplers are pure functions of a seed and an
// example number, so a run can be resumed, repeated, or divided among ranks without saved
// state.
//
// The content of a file is checked before it is used, and an error names the file, the
// value and the expected value. Nothing here downloads.
package data
