//go:build !race

package gather_test

const raced = false
