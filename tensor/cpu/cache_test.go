package cpu_test

import (
	"errors"
	"testing"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cpu"
)

// encodedPlus is a program of n additions.
func encodedPlus(n int) []byte {
	var b builder
	x, one := b.in(tensor.F32, false, 4), b.scalar()
	for range n {
		x = b.op(tensor.OpAdd, tensor.F32, []int{4}, nil, x, one)
	}
	b.keep(x)
	return b.Append(nil)
}

func TestPlanCache(t *testing.T) {
	d, err := cpu.New(&cpu.Options{Plans: 3})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	get := func(n int) *cpu.Compiled {
		t.Helper()
		e := encodedPlus(n)
		c, err := d.Compile(tensor.HashOf(e), e)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	first := get(1)
	get(2)
	get(3)
	if get(1) != first {
		t.Error("a program was compiled twice")
	}
	get(4) // 2 goes
	if get(1) != first {
		t.Error("the program that was used last went first")
	}
	get(2)
	if s := d.Stats(); s.Hits != 2 || s.Misses != 5 || s.Evicted != 2 || s.Plans != 3 {
		t.Errorf("%d hits, %d misses, %d evicted, %d kept; expected 2, 5, 2, 3", s.Hits, s.Misses, s.Evicted, s.Plans)
	}
}

// A hash alone is never believed.
func TestPlanOfAnotherHash(t *testing.T) {
	d, err := cpu.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	one, two := encodedPlus(1), encodedPlus(2)
	if _, err := d.Compile(tensor.HashOf(one), one); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Compile(tensor.HashOf(one), two); !errors.Is(err, tensor.ErrProgram) {
		t.Errorf("another program under a known hash gave %v, expected ErrProgram", err)
	}
	if _, err := d.Compile(tensor.HashOf(one[:40]), one[:40]); !errors.Is(err, tensor.ErrProgram) {
		t.Errorf("half a program gave %v, expected ErrProgram", err)
	}
}
