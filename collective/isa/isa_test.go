package isa

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestLevels(t *testing.T) {
	for l := Go; l <= NEON; l++ {
		for _, s := range []string{l.String(), strings.ToUpper(l.String())} {
			if got, err := Parse(s); err != nil || got != l {
				t.Errorf("Parse(%q) = %v, %v", s, got, err)
			}
		}
	}
	for _, s := range []string{"", "sse", "Level(17)", Level(17).String()} {
		if _, err := Parse(s); !errors.Is(err, ErrLevel) {
			t.Errorf("Parse(%q): %v", s, err)
		}
	}
	ls := Levels()
	if ls[0] != Go || ls[len(ls)-1] != Best() || !slices.IsSorted(ls) {
		t.Errorf("levels %v, the best is %v", ls, Best())
	}
	if n := testing.AllocsPerRun(10, func() { Best() }); n != 0 {
		t.Errorf("Best allocates %v times", n)
	}
}
