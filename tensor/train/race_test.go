//go:build race

package train

// raced says that everything takes ten times as long: what is trained is trained for fewer steps.
const raced = true
