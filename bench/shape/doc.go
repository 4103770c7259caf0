// Package shape measures the code of a module by reading it, with go/ast alone: in which
// direction files depend on each other, how large types and functions are, and how the
// comments are written. `make shape` prints the figures, beside those of an earlier
// revision if one is named; shape_test.go in the root holds the tree to the limits.
//
//	tree.go      finds and parses the files
//	arrows.go    references between files, and how many go up
//	sizes.go     lines, types, functions
//	language.go  comments: width, sentences, words
//	report.go    all of it for a tree, and the limits
package shape
