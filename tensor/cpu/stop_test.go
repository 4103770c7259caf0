package cpu_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cpu"
	"github.com/ringside-go/ringside/tensor/device"
)

// endless are programs that run for minutes to years, one for each kind of loop that can
// be long with little memory.
var endless = map[string]func(s *tensor.Session) *tensor.Tensor{
	"sum of an expanded element": func(s *tensor.Session) *tensor.Tensor {
		return tensor.Ones(s, tensor.F32, 1, 1).Expand(1<<30, 1<<29).Sum()
	},
	"sum of integers": func(s *tensor.Session) *tensor.Tensor {
		return tensor.Ones(s, tensor.I32, 1, 1).Expand(1<<30, 1<<20).Sum()
	},
	"sum of rows": func(s *tensor.Session) *tensor.Tensor {
		return tensor.Ones(s, tensor.F32, 1, 1, 64).Expand(1<<20, 1<<20, 64).Sum()
	},
	"sum of columns": func(s *tensor.Session) *tensor.Tensor {
		return tensor.Ones(s, tensor.F32, 1, 1, 4096).Expand(1<<20, 1<<20, 4096).Sum(0, 1)
	},
	"place of the largest": func(s *tensor.Session) *tensor.Tensor {
		return tensor.Ones(s, tensor.F64, 1, 1, 1).Expand(1<<20, 1<<20, 8).ArgmaxAll()
	},
	"tiles and their sum": func(s *tensor.Session) *tensor.Tensor {
		return tensor.Ones(s, tensor.F32, 1, 1, 64).Expand(1<<20, 1<<20, 64).Exp().Sum()
	},
	"product of f32": func(s *tensor.Session) *tensor.Tensor {
		return tensor.Ones(s, tensor.F32, 256, 1).Expand(256, 1<<30).Matmul(tensor.Ones(s, tensor.F32, 1, 256).Expand(1<<30, 256))
	},
	"product of f64": func(s *tensor.Session) *tensor.Tensor {
		return tensor.Ones(s, tensor.F64, 1, 1).Expand(16, 1<<30).Matmul(tensor.Ones(s, tensor.F64, 1, 1).Expand(1<<30, 16))
	},
	"product of integers": func(s *tensor.Session) *tensor.Tensor {
		return tensor.Ones(s, tensor.I64, 1, 1).Expand(16, 1<<30).Matmul(tensor.Ones(s, tensor.I64, 1, 1).Expand(1<<30, 16))
	},
	"attention": func(s *tensor.Session) *tensor.Tensor {
		k := tensor.Ones(s, tensor.F32, 1, 1, 1, 1).Expand(1, 1, 1<<20, 64)
		return tensor.Attention(tensor.Ones(s, tensor.F32, 1, 1, 1<<16, 64), k, k, 1, false)
	},
	"convolution": func(s *tensor.Session) *tensor.Tensor {
		return tensor.Ones(s, tensor.F32, 1, 8, 1024, 1024).Conv2D(tensor.Ones(s, tensor.F32, 32, 8, 63, 63), nil, tensor.ConvOptions{Pad: [2]int{31, 31}})
	},
	"direct convolution": func(s *tensor.Session) *tensor.Tensor {
		return tensor.Ones(s, tensor.F32, 1, 8, 2048, 2048).Conv2D(tensor.Ones(s, tensor.F32, 1, 8, 63, 63), nil, tensor.ConvOptions{Pad: [2]int{31, 31}})
	},
	"pool": func(s *tensor.Session) *tensor.Tensor {
		return tensor.Ones(s, tensor.F32, 1, 1, 4096, 4096).MaxPool2D(1024, 1, 0)
	},
}

// stopsWithin is far more than a stop takes, and far less than any program of endless.
const stopsWithin = 5 * time.Second

// TestStop cancels the context of sessions whose programs are endless, on one thread and
// on several. The device goes on with other programs.
func TestStop(t *testing.T) {
	for _, threads := range []int{1, 3} {
		d, err := cpu.NewEager(&cpu.Options{Threads: threads, MaxWork: -1})
		if err != nil {
			t.Fatal(err)
		}
		longest := time.Duration(0)
		for name, body := range endless {
			took := stops(t, d, name, body)
			longest = max(longest, took)
			t.Logf("%d threads: %s: ended after %v", threads, name, took)
			if took > stopsWithin {
				t.Errorf("%s, %d threads: ran for %v after its context was cancelled, expected less than %v", name, threads, took, stopsWithin)
			}
		}
		t.Logf("%d threads: the longest time from cancel to end is %v", threads, longest)
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
}

// stops runs a program, cancels it, and returns how long it ran after that.
func stops(t *testing.T, d *cpu.Device, name string, body func(s *tensor.Session) *tensor.Tensor) time.Duration {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s := tensor.NewSession(device.NewEngine(d), &tensor.SessionOptions{Context: ctx})
	defer s.Close()
	s.Scope(func(sc *tensor.Scope) { sc.Keep(body(s)) })
	var asked time.Time
	done := make(chan struct{})
	time.AfterFunc(30*time.Millisecond, func() {
		defer close(done)
		asked = time.Now()
		cancel()
	})
	err := s.Sync()
	ended := time.Now()
	<-done
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%s: %v, expected context.Canceled", name, err)
	}
	other := tensor.NewSession(device.NewEngine(d), nil)
	defer other.Close()
	if x, err := tensor.Ones(other, tensor.F32, 8).Sum().Item(); err != nil || x != 8 {
		t.Errorf("%s: the program after it is %v, %v; expected 8", name, x, err)
	}
	return ended.Sub(asked)
}

// TestMaxWork wants a program with more work than the limit refused with the figure and
// the option, a program with less to run, and no limit to be one.
func TestMaxWork(t *testing.T) {
	run := func(o *cpu.Options, dims ...int) error {
		s, err := cpu.NewSession(o, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		y := tensor.Ones(s, tensor.F32, 1, 1).Expand(dims...).Sum()
		defer y.Free()
		return s.Sync()
	}
	err := run(nil, 1<<30, 1<<29)
	if !errors.Is(err, tensor.ErrWork) {
		t.Fatalf("%v, expected ErrWork", err)
	}
	const want = "tensor: too much work: 9.22e+18 multiply-adds, at most 1.13e+15; make the program smaller, or raise cpu.Options.MaxWork (--max-work)"
	if err.Error() != want {
		t.Errorf("%q, expected %q", err, want)
	}
	if err := run(&cpu.Options{MaxWork: 8 * 1000 * 1000}, 1000, 1000); !errors.Is(err, tensor.ErrWork) {
		t.Errorf("over a small limit: %v, expected ErrWork", err)
	}
	for _, limit := range []int{64 * 1000 * 1000, -1} {
		if err := run(&cpu.Options{MaxWork: limit}, 1000, 1000); err != nil {
			t.Errorf("limit %d: %v", limit, err)
		}
	}
}

// TestScratchBound wants a program whose operands would have to be copied into scratch
// memory larger than the process has to be an error of that program.
func TestScratchBound(t *testing.T) {
	s, err := cpu.NewSession(&cpu.Options{MaxWork: -1}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	a, b := tensor.Ones(s, tensor.BF16, 32, 1).Expand(32, 1<<30), tensor.Ones(s, tensor.BF16, 1, 32).Expand(1<<30, 32)
	s.Scope(func(sc *tensor.Scope) { sc.Keep(a.Matmul(b)) })
	if err := s.Sync(); !errors.Is(err, tensor.ErrNoSpace) {
		t.Errorf("%v, expected ErrNoSpace", err)
	}
}

// TestTooLarge wants results that no memory holds, and shapes that no program can have,
// to be errors that name the operation and the shape.
func TestTooLarge(t *testing.T) {
	for _, c := range []struct {
		name   string
		record func(s *tensor.Session) *tensor.Tensor
		err    error
		text   string
	}{
		{"a result without room", func(s *tensor.Session) *tensor.Tensor { return tensor.Zeros(s, tensor.F32, 1<<20, 1<<20) },
			tensor.ErrNoSpace, "result of full, f32[1048576 1048576]"},
		{"more bytes than can be counted", func(s *tensor.Session) *tensor.Tensor { return tensor.Zeros(s, tensor.F32, 1<<30, 1<<30) },
			tensor.ErrShape, "stop_test.go"},
	} {
		s, err := cpu.NewSession(nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		x := c.record(s)
		if err := s.Sync(); !errors.Is(err, c.err) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v, expected %v with %q", c.name, err, c.err, c.text)
		}
		x.Free()
		_ = s.Close()
	}
}
