//go:build !race

package apply_test

const raced = false
