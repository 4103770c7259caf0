package command

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// shellWord returns s as one word of a command line that can be pasted: in single quotes
// where a shell would read it otherwise, and as $'...', which bash and zsh read, where it
// has characters that do not print.
func shellWord(s string) string {
	prints := utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !strconv.IsPrint(r) })
	special := func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("%+,-./:@_", r))
	}
	switch {
	case !prints:
		return ansiWord(s)
	case s == "" || strings.ContainsFunc(s, special):
		return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
	}
	return s
}

// ansiWord returns s as a word of the form $'...'. Bytes that are no printing ASCII are
// three octal digits.
func ansiWord(s string) string {
	var b strings.Builder
	b.WriteString("$'")
	for _, c := range []byte(s) {
		switch {
		case c == '\'' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case ' ' <= c && c <= '~':
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, `\%03o`, c)
		}
	}
	return b.String() + "'"
}
