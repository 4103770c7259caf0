package bench

import (
	"fmt"
	"math"
	"testing"

	"github.com/ringside-go/ringside/tensor/cpu"
)

// BenchmarkTrial takes steps of every model in this process, with one thread and with
// two.
func BenchmarkTrial(b *testing.B) {
	for _, t := range trials() {
		for threads := 1; threads <= 2; threads++ {
			b.Run(fmt.Sprintf("%s/%d", t.Name, threads), func(b *testing.B) { benchmarkTrial(b, &t, threads) })
		}
	}
}

func benchmarkTrial(b *testing.B, t *trial, threads int) {
	s, err := cpu.NewSession(&cpu.Options{Threads: threads}, nil)
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	tr, err := newTrainer(s, t)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := tr.step(); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := tr.step(); err != nil {
			b.Fatal(err)
		}
	}
}

// Every small model of the comparison learns its batch.
func TestTrialsLearn(t *testing.T) {
	for _, trial := range trials() {
		if trial.Form.Hidden > 128 {
			continue // seconds a step without vector instructions
		}
		t.Run(trial.Name, func(t *testing.T) {
			g, err := inProcess()
			if err != nil {
				t.Fatal(err)
			}
			defer g.close()
			tr, err := newTrainer(g.sess, &trial)
			if err != nil {
				t.Fatal(err)
			}
			var losses []float64
			for range 6 {
				loss, err := tr.step()
				if err != nil {
					t.Fatal(err)
				}
				losses = append(losses, loss)
			}
			if !(losses[5] < losses[0]) || math.IsNaN(losses[5]) {
				t.Errorf("losses %v", losses)
			}
		})
	}
}
