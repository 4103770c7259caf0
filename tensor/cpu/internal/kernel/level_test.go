package kernel

import (
	"errors"
	"reflect"
	"slices"
	"testing"

	"github.com/ringside-go/ringside/collective/isa"
)

func TestLevels(t *testing.T) {
	for l := Go; l <= NEON; l++ {
		k, err := Select(l)
		if slices.Contains(isa.Levels(), l) {
			if err != nil || k.Level != l {
				t.Errorf("Select(%v) = %v, %v", l, k, err)
			}
		} else if !errors.Is(err, ErrUnsupported) {
			t.Errorf("Select(%v): %v", l, err)
		}
	}
	if _, err := Select(Level(17)); !errors.Is(err, ErrUnsupported) {
		t.Errorf("Select(17): %v", err)
	}
	ls := Levels()
	if got := Best().Level; got != ls[len(ls)-1] {
		t.Errorf("Best is %v of %v", got, ls)
	}
}

// portableOnly are the kernels of a level that are portable Go.
var portableOnly = map[Level][]string{
	NEON: {"GemmTaps", "Windows", "WindowDots", "Transpose16", "Transpose8", "Pow", "PowS", "WidenF16", "WidenBF16", "NarrowF16", "NarrowBF16",
		"Double", "Single", "ToI32", "ToI64", "Units", "Log", "Sin", "Cos", "Rows", "Spread8", "Spread16",
		"Spread32", "Spread64", "Evens8", "Evens16", "Evens32", "Evens64", "Philox", "Normals", "Chain"},
}

// TestComplete wants every table to have all kernels, and every level but Go assembly for
// all of them but portableOnly, blocks included.
func TestComplete(t *testing.T) {
	for _, l := range Levels() {
		k, err := Select(l)
		if err != nil {
			t.Fatal(err)
		}
		portable := complete(t, l, reflect.ValueOf(*k), reflect.ValueOf(*Portable[float32]()))
		if l != Go && !slices.Equal(portable, portableOnly[l]) {
			t.Errorf("%v has no assembly for %v, expected that of %v alone", l, portable, portableOnly[l])
		}
	}
}

// complete fails the test for every function of v, and of the structs in it, that is nil.
// It returns the names of those that are the functions of the portable table.
func complete(t *testing.T, l Level, v, portable reflect.Value) (same []string) {
	for i := range v.NumField() {
		name := v.Type().Field(i).Name
		switch f, p := v.Field(i), portable.Field(i); f.Kind() {
		case reflect.Struct:
			// Go and NEON have loops over single rows in place of blocks
			if l != Go && l != NEON || name != "blocks" {
				same = append(same, complete(t, l, f, p)...)
			}
		case reflect.Func:
			if f.IsNil() {
				t.Errorf("%v has no %s", l, name)
			} else if f.Pointer() == p.Pointer() {
				same = append(same, name)
			}
		}
	}
	return same
}
