//go:build race

package cluster_test

// raced says that everything takes ten times as long: suites are run once.
const raced = true
