package kernel

import (
	"errors"
	"reflect"
	"testing"

	"github.com/ringside-go/ringside/collective/isa"
)

func TestLevels(t *testing.T) {
	for l := Go; l <= AVX512; l++ {
		k, err := Select(l)
		if l <= isa.Best() {
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

// TestComplete wants every table to have all kernels, and every level but Go all assembly
// for blocks.
func TestComplete(t *testing.T) {
	for _, l := range Levels() {
		k, err := Select(l)
		if err != nil {
			t.Fatal(err)
		}
		complete(t, l, reflect.ValueOf(*k))
	}
}

// complete fails the test for every function of v, and of the structs in it, that is nil.
func complete(t *testing.T, l Level, v reflect.Value) {
	for i := range v.NumField() {
		switch f := v.Field(i); f.Kind() {
		case reflect.Struct:
			// Go has loops over single rows in place of blocks
			if l != Go || v.Type().Field(i).Name != "blocks" {
				complete(t, l, f)
			}
		case reflect.Func:
			if f.IsNil() {
				t.Errorf("%v has no %s", l, v.Type().Field(i).Name)
			}
		}
	}
}
