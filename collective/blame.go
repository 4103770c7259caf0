package collective

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/ringside-go/ringside/collective/protocol"
)

// pairing is a send or receive that a rank is in, as ranks tell each other; 0 is none.
//
//	|63 1|62 receive|61  32 other rank|31  0 number|
type pairing uint64

// pairingOf returns the pairing of a send or receive.
func pairingOf(r *protocol.Request) pairing {
	p := pairing(1<<63 | uint64(r.Peer)&(1<<30-1)<<32 | r.Call.Seq&(1<<32-1))
	if r.Call.Kind == protocol.Recv {
		p |= 1 << 62
	}
	return p
}

// peer returns the other rank.
func (p pairing) peer() int { return int(p >> 32 & (1<<30 - 1)) }

// String returns a text such as "recv #3 from 1".
func (p pairing) String() string {
	kind, to := protocol.Send, "to"
	if p>>62&1 != 0 {
		kind, to = protocol.Recv, "from"
	}
	return fmt.Sprintf("%v #%d %s %d", kind, uint32(p), to, p.peer())
}

// told is the call that a rank tells to the others when they ask.
type told struct {
	mu   sync.Mutex
	call protocol.Call
}

// set stores the call.
func (t *told) set(call *protocol.Call) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.call = *call
}

// get returns the call.
func (t *told) get() protocol.Call {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.call
}

// inquiry finds the rank at fault for a failed call, from what the others answer. A rank
// sees only the ranks that it waits for, and those may themselves wait for a third.
type inquiry struct {
	g       *Group
	call    protocol.Call // that failed
	pair    pairing       // of call, if it is a send or receive
	f       *failure      // filled in
	answers []*answer     // by rank; nil for a rank that did not answer
}

// late asks where the ranks are, and names the rank that a call which timed out waits
// for.
func (q *inquiry) late(pe *protocol.PeerError) {
	g, call := q.g, &q.call
	q.answers = g.control.whereabouts(context.Background(), askFor)
	if call.Kind.Paired() && q.pair.peer() < g.size {
		q.latePair(g.rank, q.pair, g.lane.calls(), nil)
		return
	}
	silent := q.silent()
	var absent, behind []int
	for rank, a := range q.answers {
		switch {
		case rank == g.rank || a == nil:
		case a.Calls > call.Seq:
		case !a.InCall:
			absent = append(absent, rank)
		// it waits in an earlier call for an absent rank, or in a pair
		case a.Calls < call.Seq:
			behind = append(behind, rank)
		}
	}
	switch {
	case len(silent) > 0:
		q.timeout(silent[0], ranks(silent)+" not answering")
	case call.Kind.Paired(): // from any rank: all others may be where they should be
	case len(absent) > 0:
		q.timeout(absent[0], ranks(absent)+" not in this call")
	case len(behind) > 0:
		q.timeout(behind[0], ranks(behind)+" not in this call")
		if a := q.answers[behind[0]]; a.Pair != 0 {
			q.latePair(behind[0], a.Pair, a.Calls, call)
		}
	case len(pe.Missing) > 1:
		q.f.err = fmt.Errorf("%w (%s did not come)", pe.Err, ranks(pe.Missing))
	}
}

// silent returns the ranks that did not answer.
func (q *inquiry) silent() (out []int) {
	for rank, a := range q.answers {
		if rank != q.g.rank && a == nil {
			out = append(out, rank)
		}
	}
	return out
}

// timeout blames a rank.
func (q *inquiry) timeout(rank int, what string) {
	q.f.Rank, q.f.err = rank, fmt.Errorf("%w after %v: %s", ErrTimeout, q.g.options.Timeout, what)
}

// latePair names the rank that rank from waits for, which is in pair and has made so many
// calls of all ranks. The other rank of the pair may wait in a pair for a third, or in a
// call of all ranks for one that does not answer. own is the call of all ranks that this
// rank is in, nil if it is in none.
func (q *inquiry) latePair(from int, pair pairing, calls uint64, own *protocol.Call) {
	g, at := q.g, pair.peer()
	for range q.answers { // so that a circle ends too
		if at >= g.size || at == g.rank || q.answers[at] == nil || q.answers[at].Pair == 0 {
			break
		}
		a := q.answers[at]
		from, pair, calls, at = at, a.Pair, a.Calls, a.Pair.peer()
	}
	if at >= g.size { // an answer is data from another process
		return
	}
	q.f.Rank = at
	late := func(what string) { q.timeout(at, fmt.Sprintf("rank %d %s", at, what)) }
	switch a := q.answers[at]; {
	case at == g.rank && own != nil:
		q.f.Rank, q.f.err = from, fmt.Errorf("%w: it is in %v, rank %d in %v", ErrMismatch, pair, g.rank, *own)
	case at == g.rank: // a circle
		q.timeout(from, fmt.Sprintf("rank %d is in %v itself", from, pair))
	case a == nil:
		late("is not answering")
	case !a.InCall:
		late(fmt.Sprintf("is in no call, rank %d in %v", from, pair))
	case a.Pair != 0:
		late(fmt.Sprintf("is in %v", a.Pair))
	case a.Calls > calls:
		q.f.err = fmt.Errorf("%w: it is in call #%d of all ranks, rank %d in %v", ErrMismatch, a.Calls, from, pair)
	case len(q.silent()) > 0:
		silent := q.silent()
		q.timeout(silent[0], fmt.Sprintf("%s not answering, rank %d is in call #%d, rank %d in %v", ranks(silent), at, a.Calls, from, pair))
	default:
		late(fmt.Sprintf("is in call #%d, rank %d in %v", a.Calls, from, pair))
	}
}

// odd names the ranks that are in another call than most. Two ranks that met only know
// that they differ.
func (q *inquiry) odd() {
	g, call := q.g, &q.call
	m := (*protocol.MismatchError)(nil)
	paired := call.Kind.Paired() || errors.As(q.f.err, &m) && m.Theirs.Kind.Paired()
	if g.size < 3 || paired || call.Kind == protocol.NoKind {
		return // there is no majority
	}
	calls := q.callsNow()
	here := maps.Clone(calls)
	maps.DeleteFunc(here, func(_ int, c protocol.Call) bool { return c.Seq != call.Seq })
	groups := sides(here)
	// some ranks went on to the next call before the mismatch was known
	if len(groups) < 2 {
		groups = sides(calls)
	}
	if len(groups) < 2 {
		return // they differ in something that is not part of a call
	}
	if most, odd := groups[0], groups[1]; len(most.ranks) > len(odd.ranks) {
		q.f.Rank = odd.ranks[0]
	}
	text := make([]string, len(groups))
	for i, s := range groups {
		text[i] = fmt.Sprintf("%s in %v", ranks(s.ranks), s.call)
	}
	q.f.err = fmt.Errorf("%w: %s", ErrMismatch, strings.Join(text, ", "))
}

// callsNow asks for the calls that the ranks are in, by rank, this rank's among them. It
// leaves out ranks that are in no call of all ranks, or do not answer.
func (q *inquiry) callsNow() map[int]protocol.Call {
	g := q.g
	ctx, cancel := context.WithTimeout(context.Background(), askFor)
	defer cancel()
	for {
		calls, waiting := map[int]protocol.Call{g.rank: q.call}, false
		for rank, a := range g.control.whereabouts(ctx, askFor) {
			if rank == g.rank || a == nil || !a.InCall || a.Pair != 0 {
				continue
			}
			call, err := protocol.DecodeCall(a.In)
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
	call  protocol.Call
	ranks []int
}

// sides groups ranks by their calls: most ranks first, then in the order of their lowest
// rank.
func sides(calls map[int]protocol.Call) []side {
	var out []side
	for _, rank := range slices.Sorted(maps.Keys(calls)) {
		call := calls[rank]
		i := slices.IndexFunc(out, func(s side) bool { return s.call.Hash() == call.Hash() })
		if i < 0 {
			i, out = len(out), append(out, side{call: call})
		}
		out[i].ranks = append(out[i].ranks, rank)
	}
	slices.SortStableFunc(out, func(a, b side) int { return len(b.ranks) - len(a.ranks) })
	return out
}

// ranks returns a text such as "rank 3 is" or "ranks 1, 2 are".
func ranks(list []int) string {
	if len(list) == 1 {
		return fmt.Sprintf("rank %d is", list[0])
	}
	return "ranks " + strings.Trim(strings.ReplaceAll(fmt.Sprint(list), " ", ", "), "[]") + " are"
}
