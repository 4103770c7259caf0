// Package turns compares the benchmarks of two trees of this module. The programs of both
// take turns, so that a machine that gets slower or faster in the meantime does so for
// both, and every turn has programs with another order of functions in memory, which
// alone makes a short loop up to a tenth slower or faster. `make turns` prints the table.
//
//	build.go  programs of a tree, and what their benchmarks print
//	table.go  the figures of both sides, case by case
package turns
