//go:build race

package collective

// raced says that everything takes ten times as long: the table is sampled.
const raced = true
