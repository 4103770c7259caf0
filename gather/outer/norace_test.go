//go:build !race

package outer

const raced = false
