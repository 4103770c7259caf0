package bench

import (
	"math"
	"testing"
)

// BenchmarkTrial takes steps of every model in this process.
func BenchmarkTrial(b *testing.B) {
	for _, t := range trials() {
		b.Run(t.Name, func(b *testing.B) {
			g, err := inProcess()
			if err != nil {
				b.Fatal(err)
			}
			defer g.close()
			tr, err := newTrainer(g.sess, &t)
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
		})
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
