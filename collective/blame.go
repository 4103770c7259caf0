package collective

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/ringside-go/ringside/collective/plan"
)

// pairing is a send or a receive that a rank is in, as ranks tell each other; 0 is none.
//
//	|63 1|62 receive|61  32 other rank|31  0 number|
type pairing uint64

func pairingOf(j *job) pairing {
	p := pairing(1<<63 | uint64(j.peer)&(1<<30-1)<<32 | j.call.Seq&(1<<32-1))
	if j.call.Kind == plan.Recv {
		p |= 1 << 62
	}
	return p
}

func (p pairing) peer() int { return int(p >> 32 & (1<<30 - 1)) }

// String is as in "recv #3 from 1".
func (p pairing) String() string {
	kind, to := plan.Send, "to"
	if p>>62&1 != 0 {
		kind, to = plan.Recv, "from"
	}
	return fmt.Sprintf("%v #%d %s %d", kind, uint32(p), to, p.peer())
}

// blame finds who a call that timed out waits for: in a ring a rank sees only its neighbour not move, be that because of
// itself or of another.
func (g *Group) blame(j *job, f *failure, pe *plan.PeerError) {
	answers := g.control.whereabouts(context.Background(), askFor)
	if j.call.Kind.Paired() {
		g.blamePair(answers, f, g.rank, pairingOf(j), g.lane.calls(), nil)
		return
	}
	var silent, late, behind []int
	for rank, a := range answers {
		switch {
		case rank == g.rank:
		case a == nil:
			silent = append(silent, rank)
		case a.Calls > j.call.Seq:
		case !a.InCall:
			late = append(late, rank)
		case a.Calls < j.call.Seq: // it waits in an earlier call, for one of the late, or in a pair
			behind = append(behind, rank)
		}
	}
	switch {
	case len(silent) > 0:
		f.Rank, f.err = silent[0], fmt.Errorf("%w after %v: %s not answering", ErrTimeout, g.options.Timeout, ranks(silent))
	case len(late) > 0:
		f.Rank, f.err = late[0], fmt.Errorf("%w after %v: %s not in this call", ErrTimeout, g.options.Timeout, ranks(late))
	case len(behind) > 0:
		f.Rank, f.err = behind[0], fmt.Errorf("%w after %v: %s not in this call", ErrTimeout, g.options.Timeout, ranks(behind))
		if a := answers[behind[0]]; a.Pair != 0 {
			g.blamePair(answers, f, behind[0], a.Pair, a.Calls, j)
		}
	case len(pe.Missing) > 1:
		f.err = fmt.Errorf("%w (%s did not come)", pe.Err, ranks(pe.Missing))
	}
}

// blamePair finds who a rank waits for that is in pair and has made so many calls of all: the other one of the pair may wait in a pair for
// a third. own is the call of all that this rank is in, if it is in one.
func (g *Group) blamePair(answers []*answer, f *failure, from int, pair pairing, calls uint64, own *job) {
	at := pair.peer()
	for range answers { // a circle ends too
		if at >= g.size || at == g.rank || answers[at] == nil || answers[at].Pair == 0 {
			break
		}
		a := answers[at]
		from, pair, calls, at = at, a.Pair, a.Calls, a.Pair.peer()
	}
	if at >= g.size { // what a rank says may be anything
		return
	}
	f.Rank = at
	late := func(what string) {
		f.err = fmt.Errorf("%w after %v: rank %d %s", ErrTimeout, g.options.Timeout, at, what)
	}
	switch {
	case at == g.rank && own != nil:
		f.Rank, f.err = from, fmt.Errorf("%w: it is in %v, rank %d in %v", ErrMismatch, pair, g.rank, own.call)
	case at == g.rank: // a circle
		f.Rank, f.err = from, fmt.Errorf("%w after %v: rank %d is in %v itself", ErrTimeout, g.options.Timeout, from, pair)
	case answers[at] == nil:
		late("is not answering")
	case !answers[at].InCall:
		late(fmt.Sprintf("is in no call, rank %d in %v", from, pair))
	case answers[at].Pair != 0:
		late(fmt.Sprintf("is in %v", answers[at].Pair))
	case answers[at].Calls > calls:
		f.err = fmt.Errorf("%w: it is in call #%d of all ranks, rank %d in %v", ErrMismatch, answers[at].Calls, from, pair)
	default:
		late(fmt.Sprintf("is in call #%d, rank %d in %v", answers[at].Calls, from, pair))
	}
}

// blameOdd finds who is in another call than most: two that met only know that they differ.
func (g *Group) blameOdd(j *job, f *failure) {
	m := (*plan.MismatchError)(nil)
	if g.size < 3 || j.call.Kind.Paired() || j.call.Kind == plan.NoKind || errors.As(f.err, &m) && m.Theirs.Kind.Paired() {
		return // there is no most
	}
	calls := g.callsNow(&j.call)
	here := maps.Clone(calls)
	maps.DeleteFunc(here, func(_ int, c plan.Call) bool { return c.Seq != j.call.Seq })
	groups := sides(here)
	if len(groups) < 2 { // some went on to the next call before it was known, or went there alone
		groups = sides(calls)
	}
	if len(groups) < 2 {
		return // they differ in what is not of a call
	}
	if most, odd := groups[0], groups[1]; len(most.ranks) > len(odd.ranks) {
		f.Rank = odd.ranks[0]
	}
	text := make([]string, len(groups))
	for i, s := range groups {
		text[i] = fmt.Sprintf("%s in %v", ranks(s.ranks), s.call)
	}
	f.err = fmt.Errorf("%w: %s", ErrMismatch, strings.Join(text, ", "))
}

// tellable is a call that is told who asks.
type tellable struct {
	mu   sync.Mutex
	call plan.Call
}

func (t *tellable) set(call *plan.Call) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.call = *call
}

func (t *tellable) get() plan.Call {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.call
}

// callsNow are those that the ranks are in, by rank, this one in mine among them. Who is in none of all ranks', or does not answer, is left
// out.
func (g *Group) callsNow(mine *plan.Call) map[int]plan.Call {
	ctx, cancel := context.WithTimeout(context.Background(), askFor)
	defer cancel()
	for {
		calls, waiting := map[int]plan.Call{g.rank: *mine}, false
		for rank, a := range g.control.whereabouts(ctx, askFor) {
			if rank == g.rank || a == nil || !a.InCall || a.Pair != 0 {
				continue
			}
			call, err := plan.DecodeCall(a.In)
			if known := err == nil && call.Seq == a.Calls && !call.Kind.Paired(); known {
				calls[rank] = call
			} else {
				waiting = true // it is about to fail, too, or to begin
			}
		}
		if !waiting || ctx.Err() != nil || g.failure.Load() != nil {
			return calls
		}
	}
}

// side is the ranks that are in the same call.
type side struct {
	call  plan.Call
	ranks []int
}

// sides are calls by who is in them, most ranks first, then in the order of their lowest rank.
func sides(calls map[int]plan.Call) []side {
	var out []side
	for _, rank := range slices.Sorted(maps.Keys(calls)) {
		call := calls[rank]
		i := slices.IndexFunc(out, func(s side) bool { return s.call.Word() == call.Word() })
		if i < 0 {
			i, out = len(out), append(out, side{call: call})
		}
		out[i].ranks = append(out[i].ranks, rank)
	}
	slices.SortStableFunc(out, func(a, b side) int { return len(b.ranks) - len(a.ranks) })
	return out
}
