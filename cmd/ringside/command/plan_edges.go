package command

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ringside-go/ringside/collective/protocol"
	"github.com/ringside-go/ringside/tensor/cluster/metrics"
	"github.com/ringside-go/ringside/tensor/cuda"
	"github.com/ringside-go/ringside/tensor/device"
	"github.com/ringside-go/ringside/tensor/shard"
)

// talk is workers that have collectives or transfers with each other in a plan.
type talk struct {
	ranks []int
	calls map[protocol.Kind]int
}

// talks returns the groups of a plan, and the pairs between which a stage sends to
// another, each with how many calls it has.
func talks(p *shard.Plan) []*talk {
	found := map[string]*talk{}
	for r, rank := range p.Ranks {
		for i := range rank.Steps {
			s := &rank.Steps[i]
			if s.Kind != shard.Start || s.Collective.Group[0] != r {
				continue // each is told once, by its first worker
			}
			key := fmt.Sprint(s.Collective.Kind.Paired(), s.Collective.Group)
			t := found[key]
			if t == nil {
				t = &talk{slices.Clone(s.Collective.Group), map[protocol.Kind]int{}}
				found[key] = t
			}
			t.calls[s.Collective.Kind]++
		}
	}
	return slices.SortedFunc(maps.Values(found), func(a, b *talk) int {
		return cmp.Or(cmp.Compare(len(b.ranks), len(a.ranks)), slices.Compare(a.ranks, b.ranks))
	})
}

// reach returns how two workers of t reach each other, if the workers on a host have what
// doctor looks for.
func (t *talk) reach(a, b int, host func(rank int) int, gpus bool) metrics.Reach {
	r := metrics.Reach{Shared: host(a) == host(b)}
	if !gpus {
		return r
	}
	switch {
	case slices.ContainsFunc(t.ranks, func(k int) bool { return host(k) != host(t.ranks[0]) }):
		r.Obstacle = device.Hosts
	case len(t.ranks) > cuda.MaxPeers:
		r.Obstacle = device.TooMany
	default:
		r.Near = true
	}
	return r
}

// edges says how the workers of a plan reach each other where they are on so many hosts,
// in the order of their ranks, and why not faster.
func edges(p *shard.Plan, hosts int, gpus bool) string {
	var b strings.Builder
	host := func(rank int) int { return rank * hosts / len(p.Ranks) }
	near := false
	for _, t := range talks(p) {
		var calls, pairs []string
		for _, k := range slices.Sorted(maps.Keys(t.calls)) {
			calls = append(calls, fmt.Sprintf("%d %v", t.calls[k], k))
		}
		by := map[metrics.Reach][]string{}
		var order []metrics.Reach
		for i, a := range t.ranks {
			for _, c := range t.ranks[i+1:] {
				r := t.reach(a, c, host, gpus)
				if by[r] == nil {
					order = append(order, r)
				}
				by[r] = append(by[r], fmt.Sprintf("%d-%d", a, c))
				near = near || r.Near
			}
		}
		for _, r := range order {
			pairs = append(pairs, fmt.Sprintf("  %s: %s\n", strings.Join(by[r], ", "), reachWords(r)))
		}
		fmt.Fprintf(&b, "workers %s: %s\n%s", strings.Trim(fmt.Sprint(t.ranks), "[]"), strings.Join(calls, ", "), strings.Join(pairs, ""))
	}
	if b.Len() == 0 {
		b.WriteString("none: no worker needs anything of another\n")
	}
	if near {
		b.WriteString("peer needs a process for each worker, all in one PID namespace, and GPUs that reach each other: ringside doctor, ringside inspect\n")
	}
	return b.String()
}
