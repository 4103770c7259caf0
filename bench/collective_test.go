package bench

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/ringside-go/ringside/net/nettest"
)

func TestCollectiveCases(t *testing.T) {
	count := func(o CollectiveOptions, ranks int) map[string]int {
		n := map[string]int{}
		for _, c := range o.cases(ranks) {
			n[c.op]++
			if c.op != "barrier" && c.bytes/4/ranks == 0 && (c.op == "allgather" || c.op == "reducescatter") {
				t.Errorf("%v: nothing for a rank", c)
			}
		}
		return n
	}
	for ranks, allReduces := range map[int]int{2: 24, 4: 6} {
		want := fmt.Sprintf("map[allgather:6 allreduce:%d barrier:1 broadcast:6 reducescatter:6]", allReduces)
		if got := fmt.Sprint(count(CollectiveOptions{}, ranks)); got != want {
			t.Errorf("%d ranks: %s, want %s", ranks, got, want)
		}
	}
	one := CollectiveOptions{Sizes: []int{64}, Ops: []string{"allreduce"}, DTypes: []string{"bf16"}}
	if got := fmt.Sprint(one.cases(2)); got != "[allreduce:bf16:64:registered]" {
		t.Error(got)
	}
}

func TestSizeName(t *testing.T) {
	for n, want := range map[int]string{4: "4 B", 1 << 10: "1 KiB", 1<<10 + 4: "1028 B", 1 << 20: "1 MiB", 3 << 19: "1536 KiB"} {
		if got := sizeName(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}

// TestCollectiveBars: of two rounds in which the best transport differs.
func TestCollectiveBars(t *testing.T) {
	b := newCollectiveBook()
	for i, mpi := range [][2]float64{{40, 90}, {80, 30}} {
		for _, n := range collectiveSizes() {
			big := collectiveCase{2, "allreduce", "f32", n, false}
			private := big
			private.private = true
			b.add(private, sideFloor, outcome{20, 0, 10})
			b.add(private, sideOurs, outcome{25 + float64(i), 0, 10})
			if n < largeCall {
				b.add(private, sidePersistent, outcome{22, 0, 10})
			}
			if n < largeCall { // the private ones alone are complete
				b.add(private, sideMPI+"cma", outcome{mpi[0], 0, 10})
				continue
			}
			b.add(big, sideFloor, outcome{8, 0, 10})
			b.add(big, sideOurs, outcome{10, 0, 10})
			b.add(big, sideMPI+"cma", outcome{mpi[0], 0, 10})
			b.add(big, sideMPI+"copy", outcome{mpi[1], 0, 10})
		}
	}
	// Of the other types one size is missing.
	for _, n := range collectiveSizes()[:5] {
		half := collectiveCase{2, "allreduce", "f16", n, false}
		b.add(half, sideFloor, outcome{8, 0, 10})
		b.add(half, sideOurs, outcome{10, 0, 10})
	}
	r := &Report{Bench: "collective"}
	b.report(r)
	b.bars(r, 2)
	got := map[string]Bar{}
	for _, x := range r.Bars {
		got[x.Bar] = x
	}
	for name, want := range map[string]struct {
		value float64
		ok    bool
	}{
		"allreduce_large_over_floor":           {1.25, false},
		"allreduce_openmpi_ratio":              {1 / ((10./40 + 10./30) / 2), true},
		"allreduce_staged_over_floor":          {1.275, true},
		"allreduce_staged_openmpi_ratio":       {1 / ((25./40 + 26./30) / 2), true},
		"allreduce_f16_small_over_floor_plain": {1.25, true},
	} {
		if x, there := got[name]; !there || math.Abs(x.Value-want.value) > 1e-9 || x.OK != want.ok {
			t.Errorf("%s: %+v, want %v", name, x, want)
		}
		delete(got, name)
	}
	if len(got) > 0 {
		t.Errorf("bars of what was not measured: %v", got)
	}
}

// TestPlacement: a side that was measured far is measured again, as often as may be.
func TestPlacement(t *testing.T) {
	cases := []collectiveCase{{2, "allreduce", "f32", 4, false}}
	for _, c := range []struct {
		name   string
		ranks  int
		again  int
		probes []float64 // by run, before and after
		runs   int
	}{
		{sideFloor, 2, 9, []float64{0.04, 0.05}, 1},
		{sideOurs, 2, 9, []float64{0.3, 0.3, 0.09, 0.2, 0.08, 0.09}, 3},
		{sidePersistent, 2, 1, []float64{0.3, 0.3, 0.3, 0.3}, 2},
		{sideMPI + "cma", 2, 9, nil, 1},
		{sideOurs, 4, 9, nil, 1},
	} {
		runs := 0
		s := collectiveSide{name: c.name, run: func(_ int, given []collectiveCase) []outcome {
			runs++
			got := make([]outcome, len(given))
			for i := range got {
				got[i] = outcome{float64(runs), 0, 1}
			}
			if c.probes != nil {
				got[0].micros, got[len(got)-1].micros = c.probes[2*runs-2], c.probes[2*runs-1]
			}
			return got
		}}
		p := &placement{again: c.again, near: 1}
		got := p.run(s, c.ranks, cases)
		if wants := len(c.probes) > 0 && c.probes[len(c.probes)-1] > nearBarrier; p.mixed() != wants {
			t.Errorf("%s of %d ranks: mixed %v, expected %v", c.name, c.ranks, p.mixed(), wants)
		}
		if runs != c.runs || len(got) != 1 || got[0].micros != float64(runs) {
			t.Errorf("%s of %d ranks: %v after %d runs, expected the one of run %d", c.name, c.ranks, got, runs, c.runs)
		}
	}
}

func TestBusFactor(t *testing.T) {
	for _, c := range []struct {
		op    string
		ranks int
		want  float64
	}{{"allreduce", 2, 1}, {"allreduce", 4, 1.5}, {"allgather", 4, 0.75}, {"broadcast", 4, 1}} {
		if got := busFactor(c.op, c.ranks); got != c.want {
			t.Errorf("%s of %d: %v, want %v", c.op, c.ranks, got, c.want)
		}
	}
}

// checkCollective looks for what every run must have: our side, nothing wrong anywhere.
func checkCollective(t *testing.T, r *Report, ranks int) {
	t.Helper()
	var text bytes.Buffer
	if err := r.WriteTable(&text); err != nil {
		t.Fatal(err)
	}
	lines := 0
	for line := range strings.Lines(text.String()) {
		words := strings.Fields(line)
		if len(words) < 9 {
			continue
		}
		if _, err := strconv.Atoi(words[0]); err != nil {
			continue // a heading
		}
		lines++
		if words[7] != "0" {
			t.Errorf("wrong elements: %s", line)
		}
	}
	ours := 0
	for _, m := range r.Measurements {
		if strings.HasPrefix(m.Case, fmt.Sprint(sideOurs, ", ", ranks, " ranks")) && m.Median > 0 {
			ours++
		}
	}
	if ours == 0 || lines < ours {
		t.Errorf("%d measurements of ours, %d lines:\n%s", ours, lines, text.Bytes())
	}
}

// TestCollective runs every case on small buffers, beside the floor if there is a
// compiler.
func TestCollective(t *testing.T) {
	o := &Options{Rounds: 1, Scale: 20, Self: testSelf(t), Collective: CollectiveOptions{
		Ranks: []int{2}, Sizes: []int{4, 1028, 128 << 10}, Sides: []string{sideOurs, sideFloor}}}
	r, err := runScenario(t, "collective", o)
	if err != nil {
		t.Fatal(err)
	}
	checkCollective(t, r, 2)
}

// TestCollectivePeers runs what the peers need, which takes long to start.
func TestCollectivePeers(t *testing.T) {
	if testing.Short() {
		t.Skip("the peers take seconds to start")
	}
	o := &Options{Rounds: 1, Scale: 20, Self: testSelf(t), Collective: CollectiveOptions{
		Ranks: []int{2}, Sizes: []int{1024}, Ops: []string{"allreduce", "barrier"}, DTypes: []string{"f32"}}}
	r, err := runScenario(t, "collective", o)
	if err != nil {
		t.Fatal(err)
	}
	checkCollective(t, r, 2)
}

// TestCollectiveHosts needs namespaces, and so root.
func TestCollectiveHosts(t *testing.T) {
	o := &Options{Rounds: 1, Scale: 20, Self: testSelf(t), Collective: CollectiveOptions{
		Hosts: 2, Ranks: []int{4}, Sizes: []int{4, trafficBytes}, Sides: []string{sideOurs}}}
	if !testing.Short() {
		o.Collective.Sides = nil
		o.Collective.Sizes = []int{4}
	}
	r, err := runScenario(t, "collective", o)
	nettest.Need(t, os.Getenv, err)
	checkCollective(t, r, 4)
	if testing.Short() && (len(r.Bars) != 1 || r.Bars[0].Bar != "tcp_traffic_over_minimum" || !r.Bars[0].OK) {
		t.Errorf("limits %+v, expected the traffic's and that it holds", r.Bars)
	}
}
