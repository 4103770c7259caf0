package driver

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
)

func TestErrors(t *testing.T) {
	err := fmt.Errorf("segment 3: %w", &Error{Call: "cuMemAlloc_v2", Result: OutOfMemory})
	if !errors.Is(err, OutOfMemory) || errors.Is(err, InvalidValue) {
		t.Errorf("%v is not %v alone", err, OutOfMemory)
	}
	for _, want := range []string{"segment 3: cuMemAlloc_v2: CUDA_ERROR_OUT_OF_MEMORY (2): out of memory", "nvidia-smi"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not say %q", err, want)
		}
	}
	if got, want := (&Error{Call: "cuModuleLoadDataEx", Result: InvalidPTX, Detail: "line 3"}).Error(),
		"cuModuleLoadDataEx: CUDA_ERROR_INVALID_PTX (218): a PTX JIT compilation failed: line 3"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := Result(12345).Error(); !strings.Contains(got, "12345") || Result(12345).Name() != "" {
		t.Errorf("unknown code: %q", got)
	}
	if got := Success.Name(); got != "CUDA_SUCCESS" {
		t.Errorf("the name of 0 is %q", got)
	}
}

// TestCodes checks that the table has no name twice, and knows every code that the
// package names.
func TestCodes(t *testing.T) {
	seen := map[string]Result{}
	for r, c := range codes {
		if other, ok := seen[r.Name()]; ok {
			t.Errorf("%d and %d are both %s", r, other, r.Name())
		}
		seen[r.Name()] = r
		if c.text == "" {
			t.Errorf("%d has no text", r)
		}
	}
	for _, r := range []Result{
		Success, InvalidValue, OutOfMemory, NotInitialized, StubLibrary, DeviceUnavailable, NoDevice, InvalidDevice, InvalidContext,
		MapFailed, NoBinaryForGPU, ECCUncorrectable, PeerUnsupported, InvalidPTX, NVLinkUncorrectable, UnsupportedPTXVersion,
		InvalidHandle, IllegalState, NotFound, NotReady, IllegalAddress, LaunchTimeout, PeerAlreadyEnabled, PeerNotEnabled,
		ContextDestroyed, Assert, AlreadyRegistered, NotRegistered, LaunchFailed, NotPermitted, NotSupported, SystemNotReady,
		DriverMismatch, CompatNotSupported, MPSClientTerminated, CaptureUnsupported, CaptureInvalidated, ExternalDevice, Unknown,
	} {
		if r.Name() == "" {
			t.Errorf("%d is not in the table", r)
		}
	}
}

func TestLost(t *testing.T) {
	for r, want := range map[Result]bool{
		IllegalAddress: true, LaunchFailed: true, 716: true, Assert: true, ECCUncorrectable: true, MPSClientTerminated: true, ExternalDevice: true,
		OutOfMemory: false, NotReady: false, InvalidContext: false, AlreadyRegistered: false, NotRegistered: false, 720: false,
	} {
		if r.Lost() != want {
			t.Errorf("%v: lost is %v, want %v", r, r.Lost(), want)
		}
	}
}

func TestArgs(t *testing.T) {
	var a Args
	a.Pointer(1 << 40).Uint32(math.MaxUint32).Float32(1.5).Float64(-2).Uint64(7)
	want := []uint64{1 << 40, math.MaxUint32, uint64(math.Float32bits(1.5)), math.Float64bits(-2), 7}
	if !slices.Equal(a.Values(), want) {
		t.Errorf("%v, want %v", a.Values(), want)
	}
	if v := (*Args)(nil).Values(); v != nil {
		t.Errorf("no arguments are %v", v)
	}
}

// threads is an API that records the current context.
type threads struct {
	API
	current []Context
	fail    error
}

func (s *threads) SetCurrent(c Context) error {
	s.current = append(s.current, c)
	return s.fail
}

func (s *threads) Current() (Context, error) {
	if len(s.current) == 0 {
		return 3, nil
	}
	return s.current[len(s.current)-1], nil
}

func TestBind(t *testing.T) {
	s, wrong := &threads{}, errors.New("wrong")
	if err := Bind(s, 5, func() error { return wrong }); err != wrong {
		t.Errorf("%v, want the error of the function", err)
	}
	if !slices.Equal(s.current, []Context{5, 3}) {
		t.Errorf("contexts %v, want 5, then the former", s.current)
	}
	s.current = nil
	inner := func() error { return Bind(s, 5, func() error { return wrong }) }
	if err := Bind(s, 5, inner); err != wrong || !slices.Equal(s.current, []Context{5, 3}) {
		t.Errorf("%v, contexts %v, want one change and back", err, s.current)
	}
	s.fail = InvalidContext
	if err := Bind(s, 5, func() error { t.Error("called without its context"); return nil }); !errors.Is(err, InvalidContext) {
		t.Errorf("%v, want %v", err, InvalidContext)
	}
}

// failingThread is an API of which each call about the thread's context may fail.
type failingThread struct {
	API
	current Context
	calls   int
	failing func(call int) bool // counted from 1
}

func (d *failingThread) call() error {
	if d.calls++; d.failing(d.calls) {
		return &Error{Call: "cuCtxGetCurrent", Result: OutOfMemory}
	}
	return nil
}

func (d *failingThread) Current() (Context, error) { return d.current, d.call() }

func (d *failingThread) SetCurrent(c Context) error {
	err := d.call()
	if err == nil {
		d.current = c
	}
	return err
}

// TestBindFails has each call about the context fail, once and for good.
func TestBindFails(t *testing.T) {
	const former, bound = 1, 2
	for first := 1; first <= 4; first++ {
		for _, last := range []int{first, first + 1} {
			d, runs := &failingThread{current: former, failing: func(n int) bool { return first <= n && n <= last }}, 0
			err := Bind(d, bound, func() error {
				if runs++; d.current != bound {
					t.Errorf("calls %d to %d fail: the context is %d", first, last, d.current)
				}
				return nil
			})
			fails := last > first && first < 4
			if (err != nil) != fails || err != nil && !errors.Is(err, OutOfMemory) {
				t.Errorf("calls %d to %d fail: %v", first, last, err)
			}
			wantRuns, wantCurrent := 1, Context(former)
			if fails && first < 3 {
				wantRuns = 0
			} else if fails {
				wantCurrent = bound
			}
			if runs != wantRuns || d.current != wantCurrent {
				t.Errorf("calls %d to %d fail: %d runs, and the context is %d, want %d and %d", first, last, runs, d.current, wantRuns, wantCurrent)
			}
		}
	}
}
