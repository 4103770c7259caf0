package command

import (
	"fmt"
	"strings"
	"unicode"
)

// printable returns text of a model or of a file for people to read: control characters
// other than the end of a line and the tab, which could change the terminal's state, are
// written as \x1b.
func printable(text string) string {
	var b strings.Builder
	for _, r := range text {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			fmt.Fprintf(&b, `\x%02x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// cell returns a text that another process chose, as printable does, on one line and
// without tabs.
func cell(text string) string {
	return strings.NewReplacer("\n", `\x0a`, "\t", `\x09`).Replace(printable(text))
}
