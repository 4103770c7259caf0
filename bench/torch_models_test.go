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
	err = try(func() {
		tr := newTrainer(s, t)
		tr.step()
		for b.Loop() {
			tr.step()
		}
	})
	if err != nil {
		b.Fatal(err)
	}
}

// Every small model of the comparison learns its batch.
func TestTrialsLearn(t *testing.T) {
	for _, trial := range trials() {
		if trial.Form.Hidden > 128 {
			continue // seconds a step without vector instructions
		}
		t.Run(trial.Name, func(t *testing.T) {
			s, err := cpu.NewSession(nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			var losses []float64
			err = try(func() {
				tr := newTrainer(s, &trial)
				for range 6 {
					losses = append(losses, tr.step())
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			if !(losses[5] < losses[0]) || math.IsNaN(losses[5]) {
				t.Errorf("losses %v", losses)
			}
		})
	}
}
