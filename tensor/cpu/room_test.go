package cpu_test

import (
	"errors"
	"testing"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cpu"
)

// TestFreedMakesRoomFirst wants a large value that was freed to make room for the results
// of the next program, which would not fit beside it.
func TestFreedMakesRoomFirst(t *testing.T) {
	const n = 1 << 20
	s, err := cpu.NewSession(&cpu.Options{MaxBytes: 10 * n}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	// 4n bytes; a result has as many, and there is no room for two
	x := tensor.Ones(s, tensor.F32, n)
	for i := range 3 {
		y := x.AddS(float64(i))
		if err := s.Sync(); err != nil {
			t.Fatalf("program %d: %v", i, err)
		}
		y.Free()
	}
}

// TestReadWithoutRoom wants a value that lies in another order of dims to be read where
// there is no room for a copy of it, and to be an input of programs as before.
func TestReadWithoutRoom(t *testing.T) {
	const rows, cols = 1 << 9, 1 << 11
	s, err := cpu.NewSession(&cpu.Options{MaxBytes: 10 * rows * cols}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	data := make([]float32, rows*cols)
	for i := range data {
		data[i] = float32(i)
	}
	x, y := tensor.From(s, data, rows, cols), (*tensor.Tensor)(nil)
	s.Scope(func(sc *tensor.Scope) { y = sc.Keep(x.T().Neg()) })
	for range 2 {
		got, err := tensor.Data[float32](y)
		if err != nil {
			t.Fatal(err)
		}
		for i, v := range got {
			if want := -float32(i%rows*cols + i/rows); v != want {
				t.Fatalf("element %d is %v, expected %v", i, v, want)
			}
		}
	}
	if sum, err := y.Max().Item(); err != nil || sum != 0 {
		t.Errorf("the largest is %v, %v; expected 0", sum, err)
	}
}

// TestNoRoomForAnyNumber wants temporaries whose sizes overflow an int together to be
// more than there is memory for.
func TestNoRoomForAnyNumber(t *testing.T) {
	for _, n := range []int{1, 3} {
		s, err := cpu.NewSession(&cpu.Options{MaxWork: -1}, nil)
		if err != nil {
			t.Fatal(err)
		}
		s.Scope(func(sc *tensor.Scope) {
			// 2⁶⁰-1 elements
			x := tensor.Ones(s, tensor.F64, 1).Expand(6_981_975, 377_651, 437_251)
			y := x.Cumsum(0)
			for range n {
				y = y.Cumsum(1).Add(y)
			}
			sc.Keep(y.Sum())
		})
		if err := s.Sync(); !errors.Is(err, tensor.ErrNoSpace) {
			t.Errorf("%d sums: %v, expected ErrNoSpace", n, err)
		}
		s.Close()
	}
}

// TestFreeUnread wants an input of the program to stay until it has run, and small values
// to stay as well.
func TestFreeUnread(t *testing.T) {
	d, err := cpu.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	space := d.Open()
	defer space.Close()
	const read, unread, small, unknown = 1, 2, 3, 4
	for id, n := range map[uint64]int{read: 1 << 20, unread: 1 << 20, small: 4} {
		b, err := d.Arena().Alloc(4 * n)
		if err != nil {
			t.Fatal(err)
		}
		if err := space.Import(id, tensor.F32, tensor.Shape{n}, b, false); err != nil {
			t.Fatal(err)
		}
	}
	space.FreeUnread([]uint64{read, unread, small, unknown}, []uint64{read, unknown})
	for id, want := range map[uint64]bool{read: true, unread: false, small: true} {
		if _, have := space.Lookup(id); have != want {
			t.Errorf("value %d exists: %v, expected %v", id, have, want)
		}
	}
}
