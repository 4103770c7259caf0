package bench

import (
	"context"
	"testing"
	"time"

	"github.com/ringside-go/ringside/tensor"
)

// unrun is an Engine that runs nothing.
type unrun struct{}

type unread []byte

func (b unread) Bytes() []byte { return b }
func (b unread) Release()      {}

func (unrun) Name() string                       { return "unrun" }
func (unrun) Alloc(n int) (tensor.Buffer, error) { return unread(make([]byte, n)), nil }
func (unrun) Close() error                       { return nil }
func (unrun) Submit(context.Context, *tensor.Batch) ([]tensor.Fetched, error) {
	return nil, nil
}

// BenchmarkRecord times what a client does for a training step apart from sending it. The
// quickest step tells more than the mean on a machine that does other work as well.
func BenchmarkRecord(b *testing.B) {
	for _, name := range []string{"mlp_adamw", "mlp_sgd", "qwen_t64", "qwen_t128"} {
		b.Run(name, func(b *testing.B) {
			s := tensor.NewSession(unrun{}, nil)
			defer s.Close()
			t, err := findTrial(name)
			if err != nil {
				b.Fatal(err)
			}
			tr := newTrainer(s, t)
			b.ReportAllocs()
			best := time.Hour
			for b.Loop() {
				start := time.Now()
				loss := tr.record()
				if err := s.Flush(); err != nil {
					b.Fatal(err)
				}
				loss.Free()
				best = min(best, time.Since(start))
			}
			b.ReportMetric(float64(best), "best-ns/op")
		})
	}
}
