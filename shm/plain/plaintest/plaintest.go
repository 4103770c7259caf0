// Package plaintest has a name with control characters, and what errors about it must
// look like, for tests.
package plaintest

import (
	"strings"
	"testing"
	"unicode"
)

// Odd is a name of a file whose control characters would reach a terminal.
const Odd = "a\x1b[31m\nb"

// Quoted checks that errors, by what they are about, have the name Odd quoted.
func Quoted(t *testing.T, errs map[string]error) {
	t.Helper()
	for what, err := range errs {
		if err == nil || strings.ContainsFunc(err.Error(), unicode.IsControl) || !strings.Contains(err.Error(), `a\x1b[31m\nb`) {
			t.Errorf("%s: %q, expected the name quoted", what, err)
		}
	}
}
