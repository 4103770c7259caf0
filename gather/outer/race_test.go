//go:build race

package outer

// raced says that everything takes ten times as long and needs more memory.
const raced = true
