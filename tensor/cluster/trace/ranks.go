package trace

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/ringside-go/ringside/collective"
	"github.com/ringside-go/ringside/ipc"
)

// rankEvent is an event of one of several ranks.
type rankEvent struct {
	*collective.Event
	began   int64 // by the clock of the first rank's host
	from    *collective.RankEvents
	process int
}

// WriteRanks writes the events of ranks, which collective.ReadEvents returned, in the
// order of their beginning. It sets the clocks of several hosts by the calls of all
// ranks. It returns how many were written, and how many had no room here or in the files
// of the ranks.
func WriteRanks(ranks []*collective.RankEvents, o *Options) (written int, dropped uint64, err error) {
	if o == nil || o.Trace == nil && o.Log == nil || o.MaxBytes < 0 {
		return 0, 0, fmt.Errorf("trace: %w: expected a Trace or a Log, and MaxBytes of at least 0", ipc.ErrBadOption)
	}
	w := newWriter(o.Trace, o.Log, cmp.Or(o.MaxBytes, DefaultMaxBytes))
	var all []rankEvent
	var lost uint64
	clocks := clocksOf(ranks)
	for _, r := range ranks {
		name := fmt.Sprintf("rank %d", r.Rank)
		if r.Host != "" {
			name += " on " + r.Host
		}
		if r.Attempt > 0 {
			name += fmt.Sprintf(", restart %d", r.Attempt)
		}
		name += fmt.Sprintf(" (process %d)", r.PID)
		var groups []string
		for _, g := range r.Groups {
			groups = append(groups, "group "+g.Name)
		}
		process := w.process(name, groups...)
		for i := range r.Events {
			e := &r.Events[i]
			all = append(all, rankEvent{e, e.Began - clocks[r.Host].ahead, r, process})
		}
		lost += r.Dropped
	}
	slices.SortStableFunc(all, func(a, b rankEvent) int { return cmp.Compare(a.began, b.began) })
	said := map[int]bool{}
	for i := range all {
		e := &all[i]
		if c := clocks[e.from.Host]; c != (clock{}) && !said[e.process] {
			said[e.process] = true
			w.put(c.entry(e.began-all[0].began, e.process))
		}
		w.rankEvent(e, all[0].began, i)
	}
	err = w.end(lost)
	return max(w.events, w.seq), lost + w.dropped, err
}

// rankEvent writes the number-th event. begin is the time of the first one.
func (w *writer) rankEvent(e *rankEvent, begin int64, number int) {
	c, g := &e.Call, &e.from.Groups[e.Group]
	out := entry{name: c.Kind.String(), cat: catCall, phase: 'X', at: e.began - begin, took: e.Took, process: e.process, thread: 1 + e.Group}
	if c.DType.Valid() {
		shape := fmt.Sprintf("%v[%d]", c.DType, c.Count)
		out.args = append(out.args, arg{key: "shapes", text: shape}, arg{key: "bytes", n: uint64(c.Count) * uint64(c.DType.Size())})
	}
	if e.Tagged {
		out.args = append(out.args, arg{key: "tag", n: uint64(e.Tag)})
	} else {
		out.args = append(out.args, arg{key: "call", n: c.Seq})
	}
	switch {
	case c.Kind.Paired() && e.Peer != collective.AnyRank:
		out.args = append(out.args, arg{key: "peer", n: uint64(e.Peer)})
	case c.Kind.Folds():
		op := c.Op.String()
		if c.Factor() != 1 {
			op = "mean"
		}
		out.args = append(out.args, arg{key: "reduction", text: op})
	}
	if g.Path != "" {
		out.args = append(out.args, arg{key: "path", text: g.Path})
	}
	if e.Failed {
		out.args = append(out.args, arg{key: "failed", n: 1})
	}
	if !e.Tagged {
		w.put(&out)
		return
	}
	// It runs beside calls and others of its kind: an asynchronous event.
	out.phase, out.id = 'b', fmt.Sprint(e.process, ".", number)
	w.put(&out)
	out.phase, out.at, out.args = 'e', out.at+e.Took, nil
	w.put(&out)
}
