package plain

import (
	"fmt"
	"strings"
)

// Count returns a number and the word for what is counted: "1 class", "2 classes".
func Count[N int | int64 | uint64](n N, word string) string {
	switch {
	case n == 1:
	case strings.HasSuffix(word, "s"):
		word += "es"
	default:
		word += "s"
	}
	return fmt.Sprint(n, " ", word)
}
