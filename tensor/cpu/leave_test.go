package cpu_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/ringside-go/ringside/collective/testsize"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cpu"
	"github.com/ringside-go/ringside/tensor/enginetest"
	"github.com/ringside-go/ringside/tensor/internal/compile"
)

// fusedKinds are the kinds of steps that an engine may leave.
func fusedKinds() (all []compile.Fused) {
	for f := compile.Single + 1; f <= compile.HalfRows; f++ {
		all = append(all, f)
	}
	return all
}

// gpu are the options of a device that has no steps of four kinds, whose results are
// those of the steps that they would join.
var gpu = compile.Options{Align: 256, Leave: func(f compile.Fused) bool {
	return f == compile.AdamWProduct || f == compile.Epilogue || f == compile.JoinPads || f == compile.HalfRows
}}

// TestLeaveConforms checks that engines which lack steps of some kinds pass the suite:
// the passes that are left are right without the others.
func TestLeaveConforms(t *testing.T) {
	options := map[string]compile.Options{"like a gpu": gpu}
	if !testsize.Raced {
		options["only Single"] = compile.Options{Leave: func(compile.Fused) bool { return true }}
		options["aligned to 4 K"] = compile.Options{Align: 4096}
	}
	if !testsize.Sampled() {
		for _, kind := range fusedKinds() {
			options[fmt.Sprintf("only %v", kind)] = compile.Options{Leave: func(f compile.Fused) bool { return f != kind }}
		}
	}
	for name, o := range options {
		t.Run(name, func(t *testing.T) {
			conform(t, func() (*cpu.Device, error) {
				d, err := cpu.New(&cpu.Options{Arena: small})
				if err == nil {
					d.CompileWith(o)
				}
				return d, err
			})
		})
	}
}

// TestLeaveKeepsResults checks that a device without AdamWProduct, Epilogue and JoinPads
// has the results of one with them, of random programs and of training steps, but for the
// sign of zeros, which a joined pad keeps and a sum of pads does not.
func TestLeaveKeepsResults(t *testing.T) {
	all, without := newTraced(t, cpu.Options{}, false), newTraced(t, cpu.Options{}, false)
	without.CompileWith(gpu)
	recorded := map[string]func(s *tensor.Session) []*tensor.Tensor{
		"a transformer's step": layer(2, 4, 2, 50, 8, 0.35, true),
		"updates by products":  func(s *tensor.Session) []*tensor.Tensor { return productUpdates(s, false) },
		"rows of 16 bits": func(s *tensor.Session) []*tensor.Tensor {
			return []*tensor.Tensor{tensor.Rand(s, tensor.BF16, 3, 70).Softmax(-1)}
		},
	}
	for seed := *randomSeed; seed < *randomSeed+programs(25, 100); seed++ {
		recorded[fmt.Sprintf("seed %d", seed)] = func(s *tensor.Session) []*tensor.Tensor {
			all := enginetest.Generate(s, seed, 50)
			return all[:(len(all)+1)/2]
		}
	}
	for name, f := range recorded {
		want := all.results(t, f)
		for i, got := range without.results(t, f) {
			if !bytes.Equal(positiveZeros(got), positiveZeros(want[i])) {
				t.Errorf("%s: result %d differs", name, i)
			}
		}
	}
	for _, kind := range fusedKinds() {
		if gpu.Leave(kind) && (all.steps[kind] == 0 || without.steps[kind] != 0) {
			t.Errorf("%d steps are %v, and %d of the device that has none", all.steps[kind], kind, without.steps[kind])
		} else if !gpu.Leave(kind) && all.steps[kind] > 0 && without.steps[kind] == 0 {
			t.Errorf("no step of the device is %v, which it has", kind)
		}
	}
}

// positiveZeros returns b with every 4-byte word that is -0 as a float32 cleared.
func positiveZeros(b []byte) []byte {
	b = bytes.Clone(b)
	for i := 0; i+4 <= len(b); i += 4 {
		if b[i] == 0 && b[i+1] == 0 && b[i+2] == 0 && b[i+3] == 0x80 {
			b[i+3] = 0
		}
	}
	return b
}
