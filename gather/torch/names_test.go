package torch

import (
	"errors"
	"testing"
)

// TestPlainNames wants the field of an error quoted where its name does not print.
func TestPlainNames(t *testing.T) {
	if err := inField("a\x1b[31m\nbvals", errors.New("x")); err == nil || err.Error() != `"a\x1b[31m\nbvals": x` {
		t.Errorf("%q, expected the name quoted", err)
	}
}
