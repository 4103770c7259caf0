package dispatcher

import (
	"slices"
	"testing"

	"github.com/ringside-go/ringside/ipc"
)

// TestRoster: many peers that say nothing cost a round a few looks. Each is looked at in
// turn, and all of them before the dispatcher sleeps. One that had something to do is
// looked at in each round for a while.
func TestRoster(t *testing.T) {
	const peers = 500
	var r roster
	for range peers {
		r.add(&peer{role: ipc.RoleClient})
	}
	if n := len(r.round()); n != peers {
		t.Fatalf("%d of %d peers that have just come are looked at", n, peers)
	}
	for range warmRounds {
		r.round()
	}
	busy := r.all[7]
	r.warmUp(busy)
	r.warmUp(busy)
	seen := map[*peer]int{}
	const rounds = peers/coldLooks + 1
	for range rounds {
		look := r.round()
		if len(look) > 1+coldLooks {
			t.Errorf("a round looks at %d peers, expected at most %d", len(look), 1+coldLooks)
		}
		for _, p := range look {
			seen[p]++
		}
	}
	if len(seen) != peers || seen[busy] != rounds {
		t.Errorf("%d rounds looked at %d of %d peers, at the busy one %d times", rounds, len(seen), peers, seen[busy])
	}
	r.parking = true
	look := slices.Clone(r.round())
	slices.SortFunc(look, func(a, b *peer) int { return slices.Index(r.all, a) - slices.Index(r.all, b) })
	if !slices.Equal(look, r.all) {
		t.Errorf("the last round before a sleep looks at %d of %d peers", len(look), peers)
	}
	if n := len(r.round()); n > 1+coldLooks {
		t.Errorf("the round after it looks at %d peers", n)
	}
	busy.gone, r.gone = true, true
	r.sweep()
	if slices.Contains(r.look[:cap(r.look)], busy) || slices.Contains(r.all[:cap(r.all)], busy) || slices.Contains(r.warm[:cap(r.warm)], busy) || len(r.all) != peers-1 {
		t.Error("a peer that is gone is still there")
	}
	if n, oldest := r.idle(ipc.RoleClient); n != peers-1 || oldest != r.all[0] {
		t.Errorf("%d clients have no session, expected %d", n, peers-1)
	}
	r.all[0].session, r.changed = &session{}, true
	if n, oldest := r.idle(ipc.RoleClient); n != peers-2 || oldest != r.all[1] {
		t.Errorf("%d clients have no session, expected %d", n, peers-2)
	}
	if n, oldest := r.idle(ipc.RoleControl); n != 0 || oldest != nil {
		t.Errorf("%d controls, expected none", n)
	}
}
