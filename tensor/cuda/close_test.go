package cuda_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/ringside-go/ringside/collective/testsize"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cuda/driver"
	"github.com/ringside-go/ringside/tensor/cuda/fakecuda"
	"github.com/ringside-go/ringside/tensor/device"
)

// inUse returns a session on a device that has modules, a graph, pinned memory, records
// of failures and work under way.
func inUse(t *testing.T, api driver.API) *tensor.Session {
	t.Helper()
	s := tensor.NewSession(device.NewOwner(open(t, api, small)), nil)
	w, index := tensor.Full(s, tensor.F32, 0.5, 6, 6), tensor.From(s, []int64{3, 0, 1, 2})
	for range 3 {
		var sum *tensor.Tensor
		s.Scope(func(sc *tensor.Scope) { sum = sc.Keep(w.IndexSelect(0, index).Softmax(-1).Sum()) })
		if _, err := sum.Item(); err != nil {
			t.Fatal(err)
		}
		sum.Free()
	}
	w.AddS(1)
	if err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestCloseFaults has each call of the driver that closing a device makes fail once.
// Nothing stays but what the call itself was to give back. So nothing stays of the calls
// about the context of a thread, which a sampled test has fail alone.
func TestCloseFaults(t *testing.T) {
	counters, me := filepath.Join(t.TempDir(), "counters"), os.Getpid()
	t.Setenv("FAKECUDA_COUNTERS", counters)
	api := standIn(t, 1)
	calls := func() map[string]uint64 { return api.(driver.Counted).CallsByName() }
	alive := func() fakecuda.Counters {
		c, err := fakecuda.ReadCounters(counters)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	s := inUse(t, api)
	before := calls()
	if err := s.Close(); err != nil || alive() != (fakecuda.Counters{}) {
		t.Fatalf("without a fault: %v, left %+v", err, alive())
	}
	after := calls()
	for name, n := range after {
		context := name == "cuCtxGetCurrent" || name == "cuCtxSetCurrent"
		if n == before[name] && context {
			t.Errorf("closing does not call %s", name)
		}
		if n == before[name] || testsize.Sampled() && !context {
			continue
		}
		for at := int64(1); ; at++ {
			want := alive()
			s := inUse(t, api)
			if err := fakecuda.Fail(counters, me, name, at, int64(driver.OutOfMemory)); err != nil {
				t.Fatal(err)
			}
			told := s.Close()
			failed, err := fakecuda.Failed(counters, me)
			if err != nil {
				t.Fatal(err)
			}
			if err := fakecuda.Fail(counters, me, "", 0, 0); err != nil {
				t.Fatal(err)
			}
			if failed {
				unreturned(&want, name)
			}
			if got := alive(); got != want || context && told != nil {
				t.Errorf("call %d of %s fails: %v, and there are %+v, expected %+v", at, name, told, got, want)
			}
			if !failed {
				break
			}
		}
	}
}

// unreturned counts what stays after a call of that function has failed once.
func unreturned(c *fakecuda.Counters, function string) {
	switch function {
	case "cuEventDestroy_v2":
		c.Events++
	case "cuGraphExecDestroy":
		c.Graphs++
	case "cuMemFreeHost", "cuMemHostUnregister":
		c.HostRanges++
	case "cuMemFree_v2":
		c.Allocations++
	case "cuStreamDestroy_v2":
		c.Streams++
	}
}
