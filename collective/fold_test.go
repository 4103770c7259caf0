package collective_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/ringside-go/ringside/collective"
	"github.com/ringside-go/ringside/collective/element"
	"github.com/ringside-go/ringside/collective/protocol"
)

func TestFold(t *testing.T) {
	dst := make([]byte, 3)
	if err := collective.Fold(element.Max, element.U8, 1, dst, []byte{1, 9, 3}, []byte{4, 5, 6}); err != nil || !bytes.Equal(dst, []byte{4, 9, 6}) {
		t.Fatalf("%v, %v", dst, err)
	}
	for name, err := range map[string]error{
		"no source":      collective.Fold(element.Sum, element.U8, 1, dst),
		"other length":   collective.Fold(element.Sum, element.U8, 1, dst, []byte{1}),
		"part":           collective.Fold(element.Sum, element.F32, 1, dst, dst),
		"scaled integer": collective.Fold(element.Sum, element.U8, 0.5, dst, dst),
		"bools":          collective.Fold(element.Sum, element.Bool, 1, dst, dst),
		"nothing":        collective.Fold(element.None, element.U8, 1, dst, dst),
	} {
		if !errors.Is(err, protocol.ErrBadCall) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
