//go:build race

package command

// raced says that everything takes ten times as long, so that tests train for fewer
// steps.
const raced = true
