package cpu_test

import (
	"testing"

	"github.com/ringside-go/ringside/shm"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cpu"
	"github.com/ringside-go/ringside/tensor/device"
)

// TestTrimTemporaries wants temporaries that no program needs any more to go back, also
// while another program runs that needs less.
func TestTrimTemporaries(t *testing.T) {
	d, err := cpu.New(&cpu.Options{Arena: shm.ArenaOptions{First: 1 << 20}})
	if err != nil {
		t.Fatal(err)
	}
	s := tensor.NewSession(device.NewOwner(d), nil)
	defer s.Close()
	run := func(n int) {
		t.Helper()
		var most *tensor.Tensor
		s.Scope(func(sc *tensor.Scope) {
			most = sc.Keep(tensor.Ones(s, tensor.F32, 1).Expand(2, n).Cumsum(1).Cumsum(0).Max())
		})
		if v, err := most.Item(); err != nil || v != float64(2*n) {
			t.Fatalf("%v, %v, expected %d", v, err, 2*n)
		}
		most.Free()
		if err := s.Sync(); err != nil {
			t.Fatal(err)
		}
	}
	none := func(uint64) bool { return false }
	bytes := func() int64 { return d.Arena().Stats().Bytes }
	const large, small = 1 << 18, 1 << 8
	run(large)
	had := bytes()
	if had < 4*large {
		t.Fatalf("%d bytes, expected temporaries of at least %d", had, 4*large)
	}
	for range 3 {
		run(large)
		if d.Trim(none); bytes() != had {
			t.Fatalf("%d of %d bytes are left of a program that runs between two calls of Trim", bytes(), had)
		}
	}
	for range 3 {
		run(small)
		d.Trim(none)
	}
	if n := bytes(); n == 0 || n >= had {
		t.Errorf("%d bytes are left for a small program", n)
	}
	for range 3 {
		d.Trim(none)
	}
	if n := bytes(); n != 0 {
		t.Errorf("%d bytes are left", n)
	}
	run(large)
}
