package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"time"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cpu"
)

const (
	minSgemmOverBLAS  = 1.0
	minSgemmOverPeak  = 0.85
	minAdamOverFloor  = 0.8
	minFusionOverPass = 2.5
	minFusionOverTo   = 3.0

	vectorElems = 1 << 20
)

// sgemmSizes are products m x n x k of the comparison with OpenBLAS; the last of the
// cubes are also compared with the peak.
var sgemmSizes = [][3]int{
	{64, 64, 64}, {128, 128, 128}, {256, 256, 256}, {1024, 1024, 1024},
	{64, 1536, 384}, {64, 256, 784}, {1024, 1536, 384},
}

// runKernels times what steps are made of, without any cluster: products beside
// OpenBLAS's fastest kernels, which PyTorch calls, and beside the machine's peak as a
// loop in C has it; AdamW beside a loop in C that moves the same bytes; a chain of six
// elementwise operations as one, beside one pass an operation and beside PyTorch.
func runKernels(ctx context.Context, o *Options) (*Report, error) {
	r := &Report{Bench: "kernels"}
	python, err := findTorch(ctx)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "ringside-kernels-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if err := unpackTorch(dir); err != nil {
		return nil, err
	}
	c, err := buildArith(ctx, dir)
	if err != nil && !errors.Is(err, errNoFloor) {
		return nil, err
	}
	var peers []*torchPeer
	defer func() {
		for _, p := range peers {
			p.close()
		}
	}()
	for threads := 1; threads <= torchThreads; threads++ {
		p, err := startTorch(ctx, python, dir, threads, fastBLAS)
		if err != nil {
			return nil, err
		}
		peers = append(peers, p)
	}
	for _, part := range []struct {
		name string
		run  func() error
	}{
		{"products", func() error { return products(ctx, o, r, peers, c) }},
		{"adamw", func() error {
			if c == nil {
				return nil
			}
			return adamPass(ctx, o, r, c)
		}},
		{"chain", func() error { return chain(ctx, o, r, peers) }},
	} {
		if o.Only == "" || o.Only == part.name {
			if err := part.run(); err != nil {
				return nil, fmt.Errorf("%s: %w", part.name, err)
			}
		}
	}
	return r, nil
}

// peakBlocks is in how many blocks of some 20 ms a round beside the peak is measured,
// each followed by one of the peak: neighbours on the same core come and go within a
// tenth of a second.
const peakBlocks = 10

// products compares matrix products of all sizes and transpositions.
func products(ctx context.Context, o *Options, r *Report, peers []*torchPeer, c *floor) error {
	peak := &series{name: "peak of one thread, C", unit: "GFLOP/s"}
	shares := map[int]*series{256: nil, 1024: nil} // of the peak, by the size of a cube
	sum, cases := 0.0, 0
	for threads := 1; threads <= torchThreads; threads++ {
		for _, size := range sgemmSizes {
			m, n, k := size[0], size[1], size[2]
			for mode := range 4 {
				name := fmt.Sprintf("%dx%dx%d %s, %s", m, n, k, transposition(mode), count(threads, "thread"))
				ours := &series{name: name + ", ringside", unit: "GFLOP/s"}
				theirs := &series{name: name + ", OpenBLAS", unit: "GFLOP/s"}
				g := newSgemm(m, n, k, mode, threads)
				flop := 2 * float64(m) * float64(n) * float64(k)
				repeat := max(int(o.duration(0.01)*1e11*float64(threads)/flop), 2)
				_, cube := shares[m]
				cube = cube && n == m && k == m && mode == 0 && threads == 1
				var share *series
				blocks := 1
				// Beside the peak what a core takes to come back from waiting for the
				// other side must not count.
				if cube {
					repeat, blocks = max(int(o.duration(0.02)*1e11/flop), 2), peakBlocks
					share = &series{name: name + ", ringside over the peak in the same round", unit: "ratio", n: repeat}
				}
				for round := range o.rounds(7) + 1 { // the first is not counted
					if err := ctx.Err(); err != nil {
						g.close()
						return err
					}
					var took time.Duration
					var peaks, parts []float64
					for range blocks {
						// The other side's run left the operands' cache lines on another
						// core: fetch them.
						g.time(1)
						block := g.time(repeat)
						took += block
						if !cube || c == nil {
							continue
						}
						most, err := c.run(ctx, "peak", 2)
						if err != nil {
							g.close()
							return err
						}
						peaks, parts = append(peaks, most[1]), append(parts, flop*float64(repeat)/block.Seconds()*1e-9/most[1])
					}
					if cube && c != nil && round > 0 {
						peak.add(peaks...)
						share.add(parts...)
					}
					got, err := peers[threads-1].operation("matmul", repeat*blocks, m, n, k, mode&1, mode>>1)
					if err != nil {
						g.close()
						return err
					}
					if round > 0 {
						ours.add(flop * float64(repeat*blocks) / took.Seconds() * 1e-9)
						theirs.add(flop * float64(repeat*blocks) / total(got) * 1e-6)
					}
				}
				g.close()
				ours.n, theirs.n = repeat*blocks, repeat*blocks
				r.measured(ours)
				r.measured(theirs)
				sum, cases = sum+math.Log(ratio(ours, theirs)), cases+1
				if cube && c != nil {
					r.measured(share)
					shares[m] = share
				}
			}
			o.progress("products", fmt.Sprintf("%dx%dx%d", m, n, k), "threads", threads)
		}
	}
	r.atLeast("sgemm_over_openblas", math.Exp(sum/float64(cases)), minSgemmOverBLAS)
	if c != nil {
		r.measured(peak)
		least := math.Inf(1)
		for _, s := range shares {
			least = min(least, quantile(s.medians(), 0.5))
		}
		r.atLeast("sgemm_over_peak", least, minSgemmOverPeak)
	}
	return nil
}

// transposition names mode: bit 0 is a, bit 1 is b.
func transposition(mode int) string {
	return [...]string{"NN", "TN", "NT", "TT"}[mode]
}

// duration is seconds by the scale.
func (o *Options) duration(seconds float64) float64 { return seconds / float64(max(o.Scale, 1)) }

// adamPass compares AdamW over a million parameters with a loop in C that moves the same
// bytes.
func adamPass(ctx context.Context, o *Options, r *Report, c *floor) error {
	var v [4][]float32
	for i := range v {
		v[i] = make([]float32, vectorElems)
		for j := range v[i] {
			v[i][j] = 0.5
		}
	}
	step := cpu.AdamWPass(v[0], v[1], v[2], v[3])
	ours := &series{name: "AdamW over 1 Mi floats, ringside", unit: "ms"}
	theirs := &series{name: "AdamW over 1 Mi floats, C that moves the same", unit: "ms"}
	n := o.work(40)
	for round := range o.rounds(7) + 1 {
		samples := make([]float64, n)
		for i := range samples {
			start := time.Now()
			step()
			samples[i] = millis(time.Since(start))
		}
		got, err := c.run(ctx, "adamw", vectorElems, n)
		if err != nil {
			return err
		}
		if round > 0 {
			ours.add(samples...)
			theirs.add(got...)
		}
	}
	r.measured(ours)
	r.measured(theirs)
	r.atLeast("adamw_over_floor", ratio(theirs, ours), minAdamOverFloor)
	return nil
}

// chain compares six elementwise operations as one step with one step each, and with
// PyTorch. All sides work on the same three arrays again and again, which a third-level
// cache holds with the result: elsewhere it would be memory that is measured. Ours record
// a program each time and wait for it. Of PyTorch's the better number of threads counts.
func chain(ctx context.Context, o *Options, r *Report, peers []*torchPeer) error {
	var sides []*series
	var runs []func() error
	for _, noFuse := range []bool{false, true} {
		s, err := cpu.NewSession(&cpu.Options{NoFuse: noFuse}, nil)
		if err != nil {
			return err
		}
		defer s.Close()
		var in [3]*tensor.Tensor
		for i := range in {
			in[i] = tensor.Full(s, tensor.F32, 0.5+float64(i), vectorElems)
		}
		name := "six operations on 1 Mi floats, as one"
		if noFuse {
			name = "six operations on 1 Mi floats, one after the other"
		}
		sides = append(sides, &series{name: name, unit: "ms"})
		runs = append(runs, func() error {
			x, y, z := in[0], in[1], in[2]
			var kept *tensor.Tensor
			s.Scope(func(sc *tensor.Scope) { kept = sc.Keep(x.Mul(y).Add(z).Sub(x).Mul(y).ReLU().Add(z)) })
			defer kept.Free()
			return s.Sync()
		})
	}
	torch := make([]*series, len(peers))
	for i, p := range peers {
		torch[i] = &series{name: "six operations on 1 Mi floats, " + p.name, unit: "ms"}
	}
	n := o.work(100)
	for round := range o.rounds(7) + 1 {
		for i, run := range runs {
			if err := ctx.Err(); err != nil {
				return err
			}
			start := time.Now()
			for range n {
				if err := run(); err != nil {
					return err
				}
			}
			if round > 0 {
				sides[i].add(millis(time.Since(start)) / float64(n))
			}
		}
		for i, p := range peers {
			got, err := p.operation("chain", n, vectorElems)
			if err != nil {
				return err
			}
			if round > 0 {
				torch[i].add(total(got) / float64(len(got)))
			}
		}
	}
	for _, s := range append(sides, torch...) {
		s.n = n
		r.measured(s)
	}
	r.atLeast("fusion_over_passes", ratio(sides[1], sides[0]), minFusionOverPass)
	r.atLeast("fusion_over_torch", ratio(best(torch), sides[0]), minFusionOverTo)
	return nil
}
