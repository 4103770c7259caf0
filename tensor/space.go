package tensor

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"weak"
)

// alloc is the engine's Alloc. Where there is no memory it gives back what the garbage
// collector finds and tries once more.
func (s *Session) alloc(n int) (Buffer, error) {
	buf, err := s.eng.Alloc(n)
	if !errors.Is(err, ErrNoSpace) {
		return buf, err
	}
	s.dropped.find()
	if _, err := s.flush(nil, true); err != nil {
		return nil, err
	}
	if buf, err = s.eng.Alloc(n); err != nil {
		err = s.large.explain(err, s.stats.Live)
	}
	return buf, err
}

// reclaim runs the garbage collector after b had no memory. It reports whether b may be
// submitted again, with what the collector found to be freed first: the failure must be
// b's own, and no input may be gone, as donated ones are and those that b frees. With
// uploads it is not: nothing tells which of them the engine has.
func (s *Session) reclaim(b *Batch) bool {
	gone := func(id uint64) bool { return slices.Contains(b.Frees, id) }
	if !s.settled || len(b.Uploads) > 0 || slices.ContainsFunc(b.Inputs, gone) ||
		b.Program != nil && slices.ContainsFunc(b.Program.Externals, func(x External) bool { return x.Donated }) {
		return false
	}
	s.dropped.find()
	ids, n := s.dropped.take(nil)
	s.stats.Live -= n
	if n == 0 {
		return len(b.Frees) > 0 // they were freed since
	}
	_, err := s.eng.Submit(s.ctx, &Batch{Base: b.Base, Frees: ids, Sync: true})
	return err == nil
}

// largeBytes is the least size of a value that largeValues keeps.
const largeBytes = 1 << 20

// largeValues lists the large values of a session, so that an error about memory can name
// them. It keeps none alive.
type largeValues struct {
	list []weak.Pointer[value]
	full int // the list is cleared of dead values when it is that long
}

// add adds v of n bytes, if it is large, and keeps the place that records it.
func (l *largeValues) add(v *value, n int) {
	if n < largeBytes {
		return
	}
	site := callersOf(v.s, &v.s.rec.places.large)
	v.and().site = &site
	if len(l.list) >= max(l.full, 64) {
		l.list = slices.DeleteFunc(l.list, func(p weak.Pointer[value]) bool { return !p.Value().lives() })
		l.full = 2 * len(l.list)
	}
	l.list = append(l.list, weak.Make(v))
}

// lives reports whether v is held, which may be nil.
func (v *value) lives() bool { return v != nil && v.refs > 0 && v.failed() == nil }

// explain adds to an error about memory what the session holds: the number of its tensors
// and those that take most, with the lines that made them.
func (l *largeValues) explain(err error, live int) error {
	type group struct {
		what, site string
		n, bytes   int
	}
	var groups []group
	for _, p := range l.list {
		v := p.Value()
		if !v.lives() {
			continue
		}
		g := group{what: v.String(), site: v.more.site.String()}
		i := slices.IndexFunc(groups, func(x group) bool { return x.what == g.what && x.site == g.site })
		if i < 0 {
			i, groups = len(groups), append(groups, g)
		}
		groups[i].n++
		groups[i].bytes += v.bytes()
	}
	if len(groups) == 0 {
		return err
	}
	slices.SortStableFunc(groups, func(a, b group) int { return b.bytes - a.bytes })
	const most = 3
	var names []string
	for _, g := range groups[:min(len(groups), most)] {
		names = append(names, fmt.Sprintf("%d of %s (%.1f MiB) made at %s", g.n, g.what, float64(g.bytes)/(1<<20), g.site))
	}
	return fmt.Errorf("%w; the session holds %d tensors, the largest: %s; Scope and Free give memory back", err, live, strings.Join(names, ", "))
}
