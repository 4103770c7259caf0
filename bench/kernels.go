package bench

import (
	"fmt"
	"math"
	"slices"
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
func runKernels(r *run) {
	t := r.torch()
	c := r.arith()
	var peers []*torchPeer
	for threads := 1; threads <= torchThreads; threads++ {
		peers = append(peers, r.torchPeer(t, threads, fastBLAS))
	}
	for _, part := range []struct {
		name string
		run  func()
	}{
		{"products", func() { products(r, peers, c) }},
		{"adamw", func() { adamPass(r, c) }},
		{"chain", func() { chain(r, peers) }},
	} {
		if r.Only == "" || r.Only == part.name {
			within(part.name, part.run)
		}
	}
}

// peakBlocks is in how many blocks of some 20 ms a round beside the peak is measured,
// each followed by one of the peak: neighbours on the same core come and go within a
// tenth of a second.
const peakBlocks = 10

// products compares matrix products of all sizes and transpositions.
func products(r *run, peers []*torchPeer, c tool) {
	peak := &series{name: "peak of one thread, C", unit: "GFLOP/s"}
	sum, cases, least := 0.0, 0, math.Inf(1)
	for threads := 1; threads <= torchThreads; threads++ {
		for _, size := range sgemmSizes {
			for mode := range 4 {
				p := newProductCase(r, size, mode, threads)
				ours, theirs, share := p.compare(r, peers[threads-1], c, peak)
				sum, cases = sum+math.Log(ratio(ours, theirs)), cases+1
				if share != nil {
					least = min(least, share.median())
				}
			}
			r.progress("products", fmt.Sprintf("%dx%dx%d", size[0], size[1], size[2]), "threads", threads)
		}
	}
	r.atLeast("sgemm_over_openblas", math.Exp(sum/float64(cases)), minSgemmOverBLAS)
	if c != nil {
		r.measured(peak)
		r.atLeast("sgemm_over_peak", least, minSgemmOverPeak)
	}
}

// productCase is a matrix product that is compared.
type productCase struct {
	*sgemm
	name    string
	size    [3]int
	mode    int // transposed: bit 0 a, bit 1 b
	flop    float64
	repeat  int // products in a block
	blocks  int // of a round
	besides bool
}

func newProductCase(r *run, size [3]int, mode, threads int) *productCase {
	m, n, k := size[0], size[1], size[2]
	p := &productCase{sgemm: newSgemm(m, n, k, mode, threads), size: size, mode: mode, blocks: 1}
	p.flop = 2 * float64(m) * float64(n) * float64(k)
	p.name = fmt.Sprintf("%dx%dx%d %s, %s", m, n, k, [...]string{"NN", "TN", "NT", "TT"}[mode], count(threads, "thread"))
	seconds := 0.01 * float64(threads)
	// Beside the peak what a core takes to come back from waiting for the other side must
	// not count.
	if p.besides = (m == 256 || m == 1024) && n == m && k == m && mode == 0 && threads == 1; p.besides {
		seconds, p.blocks = 0.02, peakBlocks
	}
	p.repeat = max(int(seconds/float64(max(r.Scale, 1))*1e11/p.flop), 2)
	return p
}

// rate is GFLOP/s of so many products.
func (p *productCase) rate(products int, took time.Duration) float64 {
	return p.flop * float64(products) / took.Seconds() * 1e-9
}

// compare measures the product on both sides and, if that is to be, beside the peak.
func (p *productCase) compare(r *run, peer *torchPeer, c tool, peak *series) (ours, theirs, share *series) {
	defer p.close()
	each := p.repeat * p.blocks
	if p.besides && c != nil {
		share = &series{name: p.name + ", ringside over the peak in the same round", unit: "ratio", n: p.repeat}
	}
	var parts []float64 // of the peak, of the turn just taken
	mine := number(p.name+", ringside", "GFLOP/s", each, func() float64 {
		var took time.Duration
		parts = nil
		for range p.blocks {
			// The other side's run left the operands' cache lines on another core: fetch
			// them.
			p.time(1)
			block := p.time(p.repeat)
			took += block
			if share != nil {
				most := c.run(r.ctx, "peak", 2)[1]
				peak.add(most)
				parts = append(parts, p.rate(p.repeat, block)/most)
			}
		}
		return p.rate(each, took)
	})
	other := number(p.name+", OpenBLAS", "GFLOP/s", each, func() float64 {
		return p.flop / peer.operation("matmul", each, p.size[0], p.size[1], p.size[2], p.mode&1, p.mode>>1) * 1e-6
	})
	sides := []side{mine, other}
	if share != nil {
		sides = append(sides, side{share, 0, func(int) []float64 { return parts }})
	}
	r.measure(turns{rounds: r.rounds(7), warm: true}, sides...)
	return mine.series, other.series, share
}

// adamPass compares AdamW over a million parameters with a loop in C that moves the same
// bytes.
func adamPass(r *run, c tool) {
	if c == nil {
		return
	}
	var v [4][]float32
	for i := range v {
		v[i] = slices.Repeat([]float32{0.5}, vectorElems)
	}
	step := cpu.AdamWPass(v[0], v[1], v[2], v[3])
	ours := sampled("AdamW over 1 Mi floats, ringside", "ms", 40, func(n int) []float64 { return r.samples(n, millis, step) })
	theirs := sampled("AdamW over 1 Mi floats, C that moves the same", "ms", 40, func(n int) []float64 {
		return c.run(r.ctx, "adamw", vectorElems, n)
	})
	r.measure(turns{rounds: r.rounds(7), warm: true}, ours, theirs)
	r.atLeast("adamw_over_floor", ratio(theirs.series, ours.series), minAdamOverFloor)
}

// chain compares six elementwise operations as one step with one step each, and with
// PyTorch. All sides work on the same three arrays again and again, which a third-level
// cache holds with the result: elsewhere it would be memory that is measured. Ours record
// a program each time and wait for it. Of PyTorch's the better number of threads counts.
func chain(r *run, peers []*torchPeer) {
	const what = "six operations on 1 Mi floats, "
	n := r.work(100)
	ours := func(name string, noFuse bool) side {
		s := r.inProcess(&cpu.Options{NoFuse: noFuse}).sess
		var in [3]*tensor.Tensor
		for i := range in {
			in[i] = tensor.Full(s, tensor.F32, 0.5+float64(i), vectorElems)
		}
		x, y, z := in[0], in[1], in[2]
		return number(what+name, "ms", n, func() float64 {
			return mean(r.samples(n, millis, func() {
				var kept *tensor.Tensor
				s.Scope(func(sc *tensor.Scope) { kept = sc.Keep(x.Mul(y).Add(z).Sub(x).Mul(y).ReLU().Add(z)) })
				defer kept.Free()
				check(s.Sync())
			}))
		})
	}
	fused, passes := ours("as one", false), ours("one after the other", true)
	var torch []side
	for _, p := range peers {
		torch = append(torch, number(what+p.name, "ms", n, func() float64 { return p.operation("chain", n, vectorElems) }))
	}
	r.measure(turns{rounds: r.rounds(7), warm: true}, append([]side{fused, passes}, torch...)...)
	r.atLeast("fusion_over_passes", ratio(passes.series, fused.series), minFusionOverPass)
	r.atLeast("fusion_over_torch", ratio(best(torch), fused.series), minFusionOverTo)
}
