package cluster_test

import (
	"context"
	"io"
	"net"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster"
	"github.com/ringside-go/ringside/tensor/cpu"
)

func inProcess(b testing.TB) *tensor.Session {
	s, err := cpu.NewSession(nil, nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.Close() })
	return s
}

// sides are a session through processes and one in this process.
func sides(b *testing.B, f func(b *testing.B, s *tensor.Session)) {
	b.Run("cluster", func(b *testing.B) {
		f(b, session(b, start(b, cluster.Options{})))
	})
	b.Run("in-process", func(b *testing.B) { f(b, inProcess(b)) })
}

// BenchmarkOp is one operation and its result.
func BenchmarkOp(b *testing.B) {
	sides(b, func(b *testing.B, s *tensor.Session) {
		x := tensor.Scalar(s, float32(1))
		took := make([]time.Duration, 0, 1<<20)
		for b.Loop() {
			start := time.Now()
			y := x.Add(x)
			if _, err := y.Item(); err != nil {
				b.Fatal(err)
			}
			y.Free()
			took = append(took, time.Since(start))
		}
		slices.Sort(took)
		b.ReportMetric(float64(took[len(took)/2])/1e3, "p50-µs")
		b.ReportMetric(float64(took[len(took)*99/100])/1e3, "p99-µs")
	})
	b.Run("unix", func(b *testing.B) {
		path := filepath.Join(socketDir(b), "s")
		l, err := net.Listen("unix", path)
		if err != nil {
			b.Fatal(err)
		}
		defer l.Close()
		run(b, "echo", path)
		c, err := l.Accept()
		if err != nil {
			b.Fatal(err)
		}
		defer c.Close()
		var buf [64]byte
		for b.Loop() {
			if _, err := c.Write(buf[:]); err != nil {
				b.Fatal(err)
			}
			if _, err := io.ReadFull(c, buf[:]); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkChain is 1000 operations on 4x4 tensors whose results are all kept.
func BenchmarkChain(b *testing.B) {
	sides(b, func(b *testing.B, s *tensor.Session) {
		x := tensor.From(s, make([]float32, 16), 4, 4)
		kept := make([]*tensor.Tensor, 1000)
		for b.Loop() {
			y := x
			for i := range kept {
				y = y.Add(x)
				kept[i] = y
			}
			if err := s.Sync(); err != nil {
				b.Fatal(err)
			}
			for _, t := range kept {
				t.Free()
			}
		}
		b.ReportMetric(float64(b.N*len(kept))/b.Elapsed().Seconds(), "ops/s")
	})
}

func childEcho(_ context.Context, args []string) error {
	c, err := net.Dial("unix", args[0])
	if err != nil {
		return err
	}
	defer c.Close()
	var buf [64]byte
	for {
		if _, err := io.ReadFull(c, buf[:]); err != nil {
			return nil // the benchmark is over
		}
		if _, err := c.Write(buf[:]); err != nil {
			return err
		}
	}
}
