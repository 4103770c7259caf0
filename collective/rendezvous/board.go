package rendezvous

import (
	"encoding/binary"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"
)

// worldGather is the prefix of the gathers of all ranks; those of a group begin with
// groupGather and its name.
const (
	worldGather = "world/"
	groupGather = "group/"
)

// firstReminder is how long the ranks of a world wait for others until rank 0's log names
// them. The next reminder comes after twice the time.
const firstReminder = 10 * time.Second

// board holds the store's keys and answers requests. The server's lock is held; timers
// take it themselves.
type board struct {
	lock     *sync.Mutex
	roster   *roster
	log      *slog.Logger
	patience time.Duration // until the first reminder
	closed   bool

	keys    map[string][]byte
	bytes   int                   // of keys and values
	limit   int                   // of bytes
	waits   map[string][]*pending // for a key
	gathers map[gatherKey]*gather
}

// gatherKey names a gather. The group's size is part of it, so that ranks that differ on
// it don't meet.
type gatherKey struct {
	name string
	size uint32
}

func (k gatherKey) isWorlds() bool { return strings.HasPrefix(k.name, worldGather) }

type gather struct {
	values values // by rank, nil where missing
	left   int
	waits  []*pending
	remind *time.Timer // names the missing in the log; nil for sub-groups
}

// pending is a request that waits for its answer.
type pending struct {
	m     *member
	id    uint32
	timer *time.Timer
	done  bool
}

// handle answers a request, at once or when what it waits for has come. The error is that
// of a kind which is none.
func (b *board) handle(m *member, kind, id uint32, q request) error {
	switch kind {
	case kindSet:
		if b.set(m, id, q.key, q.value) {
			m.value(id, nil)
		}
	case kindGet:
		if v, ok := b.keys[q.key]; ok {
			m.value(id, v)
		} else {
			m.fail(id, failure{code: codeNotFound, text: fmt.Sprintf("%q", q.key)})
		}
	case kindWait:
		b.await(m, id, q)
	case kindAdd:
		b.add(m, id, q)
	case kindDelete:
		v, ok := b.keys[q.key]
		var n int64
		if ok {
			delete(b.keys, q.key)
			b.bytes -= cost(q.key, v)
			n = 1
		}
		m.value(id, number(n))
	case kindGather:
		b.gather(m, id, q)
	default:
		return fmt.Errorf("%w: message of kind %d, expected a request", ErrProtocol, kind)
	}
	return nil
}

// cost returns what a key takes, with the map's own share.
func cost(key string, value []byte) int { return len(key) + len(value) + 64 }

// set stores a value and answers the requests that wait for it. It reports whether there
// was room; if not, it has answered.
func (b *board) set(m *member, id uint32, key string, value []byte) bool {
	after := b.bytes + cost(key, value)
	if old, ok := b.keys[key]; ok {
		after -= cost(key, old)
	}
	if after > b.limit {
		m.fail(id, failure{code: codeFull, text: fmt.Sprintf("%d bytes are stored, %d are the limit", b.bytes, b.limit)})
		return false
	}
	b.bytes = after
	v := append([]byte{}, value...)
	b.keys[key] = v
	for _, w := range b.waits[key] {
		if w.finish() {
			w.m.value(w.id, v)
		}
	}
	delete(b.waits, key)
	return true
}

// await answers with the value of a key once it has one.
func (b *board) await(m *member, id uint32, q request) {
	if v, ok := b.keys[q.key]; ok {
		m.value(id, v)
		return
	}
	w := b.wait(m, id, q, func() failure {
		if b.waits[q.key] = live(b.waits[q.key]); len(b.waits[q.key]) == 0 {
			delete(b.waits, q.key)
		}
		return failure{code: codeMissing, text: fmt.Sprintf("no rank set %q", q.key)}
	})
	if w != nil {
		b.waits[q.key] = append(b.waits[q.key], w)
	}
}

func (b *board) add(m *member, id uint32, q request) {
	n := int64(q.delta)
	if old := b.keys[q.key]; len(old) == 8 {
		n += int64(binary.LittleEndian.Uint64(old))
	} else if old != nil {
		m.fail(id, failure{code: codeTooLarge, text: fmt.Sprintf("%q holds %d bytes, expected a number", q.key, len(old))})
		return
	}
	if b.set(m, id, q.key, number(n)) {
		m.value(id, number(n))
	}
}

// wait makes a pending request of q, which fails at its deadline with the failure that
// late returns; nil if the rank has too many.
func (b *board) wait(m *member, id uint32, q request, late func() failure) *pending {
	if m.pending >= maxPending {
		m.fail(id, failure{code: codeBusy, text: fmt.Sprintf("rank %d has %d requests waiting", m.rank, m.pending)})
		return nil
	}
	m.pending++
	w := &pending{m: m, id: id}
	w.timer = time.AfterFunc(time.Duration(q.timeout)*time.Millisecond, func() {
		b.lock.Lock()
		defer b.lock.Unlock()
		if !b.closed && w.finish() {
			m.fail(id, late())
		}
	})
	return w
}

// finish reports whether w is still to be answered, which the caller then does.
func (w *pending) finish() bool {
	if w.done {
		return false
	}
	w.done = true
	w.timer.Stop()
	w.m.pending--
	return true
}

// live drops those that were answered.
func live(ws []*pending) []*pending {
	return slices.DeleteFunc(ws, func(w *pending) bool { return w.done })
}

// gather takes a rank's value, and answers all when the last has come.
func (b *board) gather(m *member, id uint32, q request) {
	k := gatherKey{q.key, q.size}
	if want := uint32(b.roster.world.Size); q.size > want || q.rank >= q.size || k.isWorlds() && (q.size != want || q.rank != m.rank) {
		m.fail(id, failure{code: codeSize, text: fmt.Sprintf("rank %d of %d gathers as rank %d of %d", m.rank, want, q.rank, q.size)})
		return
	}
	if most := maxGathered(int(q.size)); len(q.value) > most {
		m.fail(id, failure{code: codeTooLarge, text: fmt.Sprintf("%d bytes to gather, expected at most %d", len(q.value), most)})
		return
	}
	g := b.gathers[k]
	if g == nil {
		g = &gather{values: make(values, q.size), left: int(q.size)}
		b.gathers[k] = g
		if k.isWorlds() && q.size > 1 {
			b.remind(g, b.patience)
		}
	}
	if g.values[q.rank] != nil {
		m.fail(id, failure{code: codeDuplicate, text: fmt.Sprintf("rank %d of %d gathered %q already", q.rank, q.size, q.key)})
		return
	}
	held := cost(q.key, q.value)
	if b.bytes+held > b.limit {
		m.fail(id, failure{code: codeFull, text: fmt.Sprintf("%d bytes are stored, %d are the limit", b.bytes, b.limit)})
		return
	}
	b.bytes += held
	g.values[q.rank] = append([]byte{}, q.value...)
	if w := b.wait(m, id, q, func() failure { return b.missing(g, "") }); w != nil {
		g.waits = append(g.waits, w)
	}
	switch g.left--; {
	case g.left == 0:
		b.complete(k, g)
	case k.isWorlds() && b.roster.hopeless:
		b.giveUp(g)
	case k.isWorlds():
		for r := range b.roster.left {
			if g.values[r] == nil {
				g.answer(b.missing(g, fmt.Sprintf("rank %d left", r)))
				return
			}
		}
	}
}

// complete answers all ranks of a gather that has every value, and forgets it.
func (b *board) complete(k gatherKey, g *gather) {
	all := encode(&g.values)
	for _, w := range g.waits {
		if w.finish() {
			w.m.send(kindValues, w.id, all)
		}
	}
	if g.remind != nil {
		g.remind.Stop()
	}
	delete(b.gathers, k)
	for _, v := range g.values {
		b.bytes -= cost(k.name, v)
	}
}

// answer fails the requests that wait in g. The values stay, so that a rank that comes
// later learns the same.
func (g *gather) answer(e failure) {
	for _, w := range g.waits {
		if w.finish() {
			w.m.fail(w.id, e)
		}
	}
	g.waits = nil
}

// lost fails the gathers of all ranks that lack the value of a rank that left: the others
// need not wait for the deadline.
func (b *board) lost(rank uint32) {
	for k, g := range b.gathers {
		if k.isWorlds() && g.values[rank] == nil {
			g.answer(b.missing(g, fmt.Sprintf("rank %d left", rank)))
		}
	}
}

// giveUpAll fails the gathers of all ranks: the world cannot become complete.
func (b *board) giveUpAll() {
	for k, g := range b.gathers {
		if k.isWorlds() {
			b.giveUp(g)
		}
	}
}

// giveUp fails a gather of all ranks, without blame for those that are here and about to
// come to it.
func (b *board) giveUp(g *gather) {
	e := b.missing(g, "")
	e.ranks = slices.DeleteFunc(e.ranks, func(r int) bool { return b.roster.here[uint32(r)] != nil })
	g.answer(e)
}

// missing returns the failure that names the ranks without a value, and the refused
// callers.
func (b *board) missing(g *gather, why string) failure {
	e := failure{code: codeMissing, text: b.roster.explain(why)}
	for r, v := range g.values {
		if v == nil {
			e.ranks = append(e.ranks, r)
		}
	}
	return e
}

// remind logs after some time which ranks the others wait for, and again until they
// don't.
func (b *board) remind(g *gather, after time.Duration) {
	g.remind = time.AfterFunc(after, func() {
		b.lock.Lock()
		defer b.lock.Unlock()
		if g.waits = live(g.waits); b.closed || g.left == 0 || len(g.waits) == 0 {
			return
		}
		missing := b.missing(g, "")
		b.log.Warn("rendezvous: waiting for ranks that have not come", "ranks", missing.ranks, "of", len(g.values), "text", missing.text)
		b.remind(g, 2*after)
	})
}

// close stops the timers of everything that waits.
func (b *board) close() {
	b.closed = true
	stop := func(ws []*pending) {
		for _, w := range ws {
			w.timer.Stop()
		}
	}
	for _, ws := range b.waits {
		stop(ws)
	}
	for _, g := range b.gathers {
		stop(g.waits)
		if g.remind != nil {
			g.remind.Stop()
		}
	}
}
