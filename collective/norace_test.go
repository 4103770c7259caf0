//go:build !race

package collective

const raced = false
