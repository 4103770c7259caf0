package cuda_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cuda"
	"github.com/ringside-go/ringside/tensor/cuda/memory"
	"github.com/ringside-go/ringside/tensor/device"
	"github.com/ringside-go/ringside/tensor/optim"
)

// session returns a session on a device with those options, and the device. Both are
// closed with the test.
func session(t *testing.T, seed uint64, o cuda.Options) (*tensor.Session, *cuda.Device) {
	t.Helper()
	d := open(t, standIn(t, seed), o)
	s := tensor.NewSession(device.NewOwner(d), nil)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, d
}

// TestHostSteps checks what is counted, and that consecutive steps on the host copy
// nothing between them.
func TestHostSteps(t *testing.T) {
	o := small
	o.HostSteps, o.Host.NoFuse = true, true
	s, d := session(t, 0, o)
	x := tensor.From(s, []float32{1, 2, 3, 4})
	var y *tensor.Tensor
	s.Scope(func(sc *tensor.Scope) { y = sc.Keep(x.Neg().Exp().Neg().Neg()) })
	if _, err := tensor.Data[float32](y); err != nil {
		t.Fatal(err)
	}
	c := d.Counters()
	if c.HostSteps["neg f32"] != 3 || c.HostSteps["exp f32"] != 1 || len(c.HostSteps) != 2 || c.Launches != 0 {
		t.Errorf("counted %+v, expected 3 neg f32 and 1 exp f32 on the host", c)
	}
	// Up the operand and the result, down the operand and the result.
	if c.Up != 32 || c.Down != 32 {
		t.Errorf("%d bytes went up and %d down, expected 32 and 32", c.Up, c.Down)
	}
	w := d.Stats().Work
	calls := w.Calls
	if w.Calls = 0; w != (device.Work{HostSteps: 4, Up: 32, Down: 32}) {
		t.Errorf("counted %+v, expected 4 steps on the host, 32 bytes up and 32 down", w)
	}
	if err := d.Memory().API().Init(); err != nil || d.Stats().Work.Calls != calls+1 || calls == 0 {
		t.Errorf("%d calls of the driver after one more than %d, %v", d.Stats().Work.Calls, calls, err)
	}
}

// TestOutOfMemory checks that a device which is full says so, and that the
// session goes on once its error is cleared.
func TestOutOfMemory(t *testing.T) {
	t.Setenv("FAKECUDA_MEMORY_MIB", "16")
	s, _ := session(t, 0, small)
	if _, err := tensor.Data[float32](tensor.Full(s, tensor.F32, 1, 1<<23)); !errors.Is(err, tensor.ErrNoSpace) {
		t.Errorf("32 MiB on a device of 16: %v, expected ErrNoSpace", err)
	}
	if err := s.ClearErr(); !errors.Is(err, tensor.ErrNoSpace) {
		t.Errorf("the session's error is %v, expected ErrNoSpace", err)
	}
	got, err := tensor.Data[float32](tensor.From(s, []float32{1, 2}).Neg())
	if err != nil || got[0] != -1 || got[1] != -2 {
		t.Errorf("the negatives of 1 and 2 after the device was full: %v, %v", got, err)
	}
}

// TestRefusedKernel has the driver refuse to compile a kernel: the program fails with the
// driver's code, what it was to make does not exist, and the session goes on.
func TestRefusedKernel(t *testing.T) {
	t.Setenv("FAKECUDA_FAIL", "cuModuleLoadDataEx:1=218")
	s, d := session(t, 0, small)
	x := tensor.From(s, []float32{1, 2})
	_, err := tensor.Data[float32](x.Neg())
	for _, says := range []string{"kernel of neg f32", "CUDA_ERROR_INVALID_PTX (218)"} {
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("a kernel that the driver refuses: %v, expected %s", err, says)
		}
	}
	_ = s.ClearErr()
	got, err := tensor.Data[float32](x.Neg())
	if err != nil || got[0] != -1 || got[1] != -2 || len(d.Counters().HostSteps) > 0 {
		t.Errorf("the negatives of 1 and 2 after that: %v, %v, %+v", got, err, d.Counters())
	}
}

// TestLost checks that a device which is lost fails every call with the same error, and
// that it can be closed.
func TestLost(t *testing.T) {
	t.Setenv("FAKECUDA_FAIL", "cuEventQuery:2=700")
	d := open(t, standIn(t, 0), small)
	s := tensor.NewSession(device.NewOwner(d), nil)
	x := tensor.From(s, []float32{1, 2})
	for range 2 {
		_, err := tensor.Data[float32](x.Neg())
		if x.Err() == nil && err == nil {
			continue // before the call that fails
		}
		if !errors.Is(err, memory.ErrLost) {
			t.Errorf("after CUDA_ERROR_ILLEGAL_ADDRESS: %v, expected ErrLost", err)
		}
	}
	if err := d.Memory().Lost(); err == nil {
		t.Error("the device is not lost")
	}
	if err := s.Close(); err != nil && !errors.Is(err, memory.ErrLost) {
		t.Errorf("closing a lost device: %v", err)
	}
}

// TestLateStreams runs a chain of programs over streams that are late.
func TestLateStreams(t *testing.T) {
	t.Setenv("FAKECUDA_DELAY_US", "300")
	s, _ := session(t, 0, small)
	x := tensor.From(s, []float32{0, 1})
	for range 20 {
		x = x.AddS(1)
		if err := s.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	got, err := tensor.Data[float32](x)
	if err != nil || got[0] != 20 || got[1] != 21 {
		t.Errorf("after 20 additions of 1 to 0 and 1: %v, %v", got, err)
	}
}

// TestKernels checks that a chain, an update and a cast run as kernels, one launch each,
// and that nothing is copied but the operands and the results.
func TestKernels(t *testing.T) {
	s, d := session(t, 1, small)
	x := tensor.From(s, []float32{-1, 0, 1, 2})
	var y, z *tensor.Tensor
	s.Scope(func(sc *tensor.Scope) {
		y = sc.Keep(x.SiLU().MulS(2).Exp())
		z = sc.Keep(x.Cast(tensor.I64))
	})
	if _, err := tensor.Data[float32](y); err != nil {
		t.Fatal(err)
	}
	if got, err := tensor.Data[int64](z); err != nil || got[0] != -1 || got[3] != 2 {
		t.Errorf("as i64: %v, %v", got, err)
	}
	c := d.Counters()
	if c.Launches != 1 && c.Launches != 2 || len(c.HostSteps) != 0 || c.Up != 16 || c.Down != 16+32 {
		t.Errorf("counted %+v, expected 1 or 2 launches, none on the host, 16 bytes up and 48 down", c)
	}
}

// TestAdamW checks that the updates of two parameters are kernels.
func TestAdamW(t *testing.T) {
	s, d := session(t, 1, small)
	var ps []*tensor.Tensor
	var named []tensor.Named
	for i, n := range []int{5, 8} {
		ps = append(ps, tensor.Full(s, tensor.F32, 0.5, n).RequireGrad())
		named = append(named, tensor.Named{Name: fmt.Sprint(i), T: ps[i]})
	}
	o := optim.NewAdamW(named, optim.AdamWOptions{LR: 0.1})
	for range 3 {
		grads := []*tensor.Tensor{ps[0].MulS(2), ps[1].MulS(3)}
		s.NoGrad(func() {
			if err := o.Step(grads); err != nil {
				t.Fatal(err)
			}
		})
		if err := s.Sync(); err != nil {
			t.Fatal(err)
		}
	}
	for name := range d.Counters().HostSteps {
		if name == "adamw_all f32" {
			t.Error("an update ran on the host")
		}
	}
}

// TestLateFailure has a program fail that no call waits for, and so many programs read
// its result that the device looks for failures on the way: the error is told, no result
// exists, and another value is as it was.
func TestLateFailure(t *testing.T) {
	s, d := session(t, 1, small)
	x, other := tensor.From(s, []float32{1, 2, 3}), tensor.From(s, []float32{4}).AddS(1)
	if err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	y := x.IndexSelect(0, tensor.From(s, []int64{3}))
	for range 100 {
		y = y.AddS(1)
		if err := s.Flush(); err != nil {
			t.Fatalf("before anybody waits: %v", err)
		}
	}
	_, err := tensor.Data[float32](y)
	if !errors.Is(err, tensor.ErrIndex) || !strings.Contains(err.Error(), "3 at place 0; expected -3 to 2") {
		t.Errorf("a chain behind an index that is out of range: %v, expected %v and the index", err, tensor.ErrIndex)
	}
	_ = s.ClearErr()
	if got, err := tensor.Data[float32](other); err != nil || got[0] != 5 {
		t.Errorf("another value: %v, %v, expected 5", got, err)
	}
	if n := d.Counters().Launches; n > 90 {
		t.Errorf("%d kernels, but programs behind a failure that is known do not run", n)
	}
}
