//go:build race

package apply_test

// raced says that everything takes ten times as long and needs more memory.
const raced = true
