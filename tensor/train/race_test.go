//go:build race

package train

// raced reports that everything takes ten times as long: tests train for fewer steps.
const raced = true
