//go:build race

package gather_test

// raced says that everything takes ten times as long and needs more memory.
const raced = true
