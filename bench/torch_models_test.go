package bench

import (
	"fmt"
	"math"
	"testing"

	"github.com/ringside-go/ringside/tensor"
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

// TestDecoder wants the mean loss of tokens that are decoded one by one to be the loss of
// the same model on all of them at once, also when it begins again.
func TestDecoder(t *testing.T) {
	s, err := cpu.NewSession(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	const seq = 9
	of := func(kind string) *trainer {
		return newTrainer(s, &trial{Name: kind, Form: form{Kind: kind, Batch: 1, Vocab: 50, Hidden: 32, Layers: 2, Heads: 4, Seq: seq}, Opt: "sgd"})
	}
	var want, got float64
	err = try(func() {
		all, one := of("gpt"), of("decode")
		tokens := one.net.(*decoder).tokens
		want = must(all.net.Loss(tensor.From(s, tokens[:seq], 1, seq), tensor.From(s, tokens[1:], 1, seq)).Item())
		for range 2 {
			got = 0
			for range seq {
				got += one.step() / seq
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if !(math.Abs(got-want) < 1e-5*want) {
		t.Errorf("decoded one by one the mean loss is %v, at once %v", got, want)
	}
}
