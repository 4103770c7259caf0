package turn

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
)

// The model runs the real Line and Turns of a dispatcher, three workers and the clients
// of some sessions, over queues as the connections are, and walks through every order in
// which their steps can happen. A message needs all workers of its session: none is done
// with it before all have begun it.

const workers = 3

// plan is a session of a scenario.
type plan struct {
	ranks    []int // its workers
	messages int
	own      bool // uses connections of its own
	leaves   bool // its client may go at any time
	breaks   bool // its client's connection with the first worker may end at any time
	late     bool // it opens at any time, not before all others do anything
}

// packet is a message in a queue.
type packet struct {
	session int
	what    Event // of a Turn; run and closed for others
	number  int   // of a run
	tell    bool  // the first worker tells the dispatcher when it begins a forwarded run
}

const (
	run    = events + iota // a message of the session
	closed                 // the session is over
)

// world is one state of everything.
type world struct {
	plans    []plan
	line     *Line[int]
	sessions []*Session[int]
	down     [workers][]packet // dispatcher → worker
	up       [workers][]packet // worker → dispatcher
	input    [][]packet        // per session: client → first worker, or → dispatcher
	passed   [][][]packet      // per session and rank: first worker → another
	worker   [workers]station
	begun    [][]int  // per session and rank: messages begun
	opened   []bool   // per session
	over     []bool   // per session: the dispatcher has forgotten it
	gone     []bool   // per session: the connection with its client has ended
	pending  []bool   // per session: a forwarded message has not begun
	told     []packet // what the line says, until it is sent
}

// station is a worker.
type station struct {
	turns   []Turn // by session
	open    []bool // by session: not closed
	holder  int    // session with the turn here, or -1
	backlog []packet
	running packet // under way; what is 0 when there is none
	busy    bool
}

func newWorld(plans []plan) *world {
	w := &world{plans: plans}
	w.line = NewLine(func(s *Session[int], what wire.TurnWhat) {
		w.told = append(w.told, packet{session: int(s.ID), what: Event(what)})
	})
	for id, p := range plans {
		w.opened = append(w.opened, !p.late)
		w.sessions = append(w.sessions, &Session[int]{})
		if !p.late {
			w.sessions[id] = w.line.Join(uint64(id), p.ranks)
		}
		var in []packet
		for k := range p.messages {
			in = append(in, packet{session: id, what: run, number: k})
		}
		w.input = append(w.input, in)
		w.passed = append(w.passed, make([][]packet, len(p.ranks)))
		w.begun = append(w.begun, make([]int, len(p.ranks)))
	}
	n := len(plans)
	w.over, w.gone, w.pending = make([]bool, n), make([]bool, n), make([]bool, n)
	for i := range w.worker {
		x := &w.worker[i]
		x.holder = -1
		for _, p := range plans {
			r := slices.Index(p.ranks, i)
			x.open = append(x.open, r >= 0)
			x.turns = append(x.turns, Turn{Role: map[bool]Role{true: First, false: Other}[r == 0]})
		}
	}
	return w
}

// flush sends what the line has said.
func (w *world) flush() {
	for _, p := range w.told {
		to := w.plans[p.session].ranks
		if p.what == Back {
			to = to[:1]
		}
		for _, r := range to {
			w.down[r] = append(w.down[r], p)
		}
	}
	w.told = w.told[:0]
}

// step is something that can happen.
type step struct {
	act    func() error
	format string // its name
	args   []any
}

// steps returns what can happen next.
func (w *world) steps() (all []step) {
	add := func(act func() error, format string, args ...any) {
		all = append(all, step{act, format, args})
	}
	for i := range workers {
		if len(w.up[i]) > 0 {
			add(func() error { return w.hear(i) }, "the dispatcher hears worker %d: %v", i, w.up[i][0])
		}
		w.workerSteps(i, add)
	}
	for id, p := range w.plans {
		if !w.opened[id] {
			add(func() error {
				w.opened[id], w.sessions[id] = true, w.line.Join(uint64(id), p.ranks)
				return nil
			}, "session %d opens", id)
			continue
		}
		if !p.own && !w.over[id] && len(w.input[id]) > 0 && !w.pending[id] && !(w.sessions[id].queued && !w.line.MayForward(w.sessions[id])) {
			add(func() error { return w.forward(id) }, "the dispatcher looks at session %d's message %d", id, w.input[id][0].number)
		}
		if p.leaves && !w.gone[id] {
			add(func() error { w.leave(id); return nil }, "session %d's client goes", id)
		}
		if p.breaks && !w.gone[id] {
			add(func() error { w.gone[id] = true; return nil }, "session %d's connection ends", id)
		}
	}
	return all
}

// leave ends a session whose client is gone. Messages that the client sent before are
// still there.
func (w *world) leave(id int) {
	w.gone[id], w.over[id] = true, true
	for _, r := range w.plans[id].ranks {
		w.down[r] = append(w.down[r], packet{session: id, what: closed})
	}
	w.line.Leave(w.sessions[id])
	w.flush()
}

// hear has the dispatcher take a message of worker i.
func (w *world) hear(i int) error {
	p := w.up[i][0]
	w.up[i] = w.up[i][1:]
	if w.over[p.session] {
		return nil
	}
	if p.what == run { // the first worker has begun a forwarded message
		w.pending[p.session] = false
		return nil
	}
	err := w.line.Hear(w.sessions[p.session], wire.TurnWhat(p.what))
	w.flush()
	return err
}

// forward has the dispatcher forward a message, if it may.
func (w *world) forward(id int) error {
	s := w.sessions[id]
	ok := w.line.MayForward(s)
	w.flush()
	if !ok {
		return nil
	}
	for _, r := range s.Workers {
		if h := w.line.holder[r]; h != nil {
			return fmt.Errorf("a message of session %d is forwarded to worker %d, where session %d has the turn", id, r, h.ID)
		}
	}
	p := w.input[id][0]
	p.tell = w.line.Contended(s)
	for _, r := range s.Workers {
		w.down[r] = append(w.down[r], p)
	}
	w.pending[id] = p.tell
	w.input[id] = w.input[id][1:]
	w.line.Forwarded(s)
	w.flush()
	return nil
}

func (w *world) workerSteps(i int, add func(act func() error, format string, args ...any)) {
	x := &w.worker[i]
	// also while a message is under way, which may take several steps
	if len(w.down[i]) > 0 {
		add(func() error { return w.take(i) }, "worker %d takes in %v", i, w.down[i][0])
	}
	for id, p := range w.plans {
		if p.own && p.ranks[0] == i && x.open[id] && w.gone[id] && x.turns[id].State != Left {
			add(func() error { return w.change(i, id, Lose) }, "worker %d sees the end of session %d's connection", i, id)
		}
	}
	if x.busy {
		if w.together(x.running) {
			add(func() error { return w.finish(i) }, "worker %d ends message %d of session %d", i, x.running.number, x.running.session)
		}
		return
	}
	if len(x.backlog) > 0 && x.holder < 0 {
		add(func() error { return w.work(i) }, "worker %d does %v", i, x.backlog[0])
	}
	for id, p := range w.plans {
		if !p.own || !x.open[id] || !w.opened[id] {
			continue
		}
		t := &x.turns[id]
		rank := slices.Index(p.ranks, i)
		switch {
		case rank == 0 && len(w.input[id]) > 0 && t.State == Idle:
			add(func() error {
				w.up[i] = append(w.up[i], packet{session: id, what: Ask})
				return w.change(i, id, Ask)
			}, "worker %d asks for session %d", i, id)
		case rank == 0 && len(w.input[id]) > 0 && t.MayRun():
			add(func() error { return w.pass(i, id) }, "worker %d passes on message %d of session %d", i, w.input[id][0].number, id)
		case rank > 0 && t.Held() && len(w.passed[id][rank]) > 0:
			add(func() error { return w.follow(i, id, rank) }, "worker %d does %v", i, w.passed[id][rank][0])
		}
	}
}

// change steps the turn of a session at worker i, and says Over if that is to be said.
func (w *world) change(i, id int, e Event) error {
	x := &w.worker[i]
	says, err := x.turns[id].Step(e)
	if says {
		for r := 1; r < len(w.plans[id].ranks); r++ {
			w.passed[id][r] = append(w.passed[id][r], packet{session: id, what: Over})
		}
		w.up[i] = append(w.up[i], packet{session: id, what: Over})
	}
	held := x.turns[id].Held()
	switch {
	case held && x.holder < 0:
		x.holder = id
	case held && x.holder != id:
		return fmt.Errorf("worker %d: session %d gets the turn that session %d has", i, id, x.holder)
	case !held && x.holder == id:
		x.holder = -1
	}
	return err
}

// take takes a message of the dispatcher in: what is about the session itself, and Back,
// at once; the others wait in their order.
func (w *world) take(i int) error {
	p := w.down[i][0]
	w.down[i] = w.down[i][1:]
	x := &w.worker[i]
	switch {
	case p.what == closed:
		x.open[p.session] = false
		x.backlog = slices.DeleteFunc(x.backlog, func(q packet) bool { return q.session == p.session })
		if x.holder == p.session {
			x.holder = -1
		}
	case !x.open[p.session]:
	case p.what == Back:
		return w.change(i, p.session, Back)
	default:
		x.backlog = append(x.backlog, p)
	}
	return nil
}

// work does the oldest message from the dispatcher.
func (w *world) work(i int) error {
	x := &w.worker[i]
	p := x.backlog[0]
	x.backlog = x.backlog[1:]
	if p.what != run {
		return w.change(i, p.session, p.what)
	}
	if p.tell && w.plans[p.session].ranks[0] == i {
		w.up[i] = append(w.up[i], p)
	}
	return w.begin(i, p)
}

// pass has the first worker pass a message on and begin it.
func (w *world) pass(i, id int) error {
	p := w.input[id][0]
	w.input[id] = w.input[id][1:]
	for r := 1; r < len(w.plans[id].ranks); r++ {
		w.passed[id][r] = append(w.passed[id][r], p)
	}
	if err := w.change(i, id, Pass); err != nil {
		return err
	}
	return w.begin(i, p)
}

// follow has another worker do what the first has passed on.
func (w *world) follow(i, id, rank int) error {
	p := w.passed[id][rank][0]
	w.passed[id][rank] = w.passed[id][rank][1:]
	if p.what == Over {
		return w.change(i, id, Over)
	}
	return w.begin(i, p)
}

// begin begins a message, which must be the session's next.
func (w *world) begin(i int, p packet) error {
	rank := slices.Index(w.plans[p.session].ranks, i)
	if p.number != w.begun[p.session][rank] {
		return fmt.Errorf("worker %d begins message %d of session %d after %d", i, p.number, p.session, w.begun[p.session][rank])
	}
	w.begun[p.session][rank]++
	x := &w.worker[i]
	x.running, x.busy = p, true
	return nil
}

// together reports whether all workers of the session have begun p, or one knows that the
// session is over.
func (w *world) together(p packet) bool {
	for rank, r := range w.plans[p.session].ranks {
		if w.begun[p.session][rank] <= p.number && w.worker[r].open[p.session] {
			return false
		}
	}
	return true
}

// finish ends the message that worker i has under way.
func (w *world) finish(i int) error {
	x := &w.worker[i]
	id := x.running.session
	x.busy, x.running = false, packet{}
	if t := &x.turns[id]; x.open[id] && t.Role == First && (t.State == Busy || t.State == Ending) {
		return w.change(i, id, Done)
	}
	return nil
}

// check returns an error if w breaks what the protocol promises: nothing else can happen
// (final) and something is not done.
func (w *world) check(final bool) error {
	for i := range w.worker {
		for id, s := range w.sessions {
			if h := w.line.holder[i]; h == s && !w.over[id] && !h.Turn.Held() {
				return fmt.Errorf("the dispatcher has session %d hold worker %d in the state %v", id, i, s.Turn.State)
			}
		}
	}
	for i := range w.worker {
		x := &w.worker[i]
		id := x.running.session
		if t := &x.turns[id]; x.busy && w.plans[id].own && x.open[id] && t.State != Left && !t.Held() {
			return fmt.Errorf("worker %d: a message of session %d is under way without its turn", i, id)
		}
	}
	if !final {
		return nil
	}
	for id, p := range w.plans {
		for rank, n := range w.begun[id] {
			if n < p.messages && !w.gone[id] {
				return fmt.Errorf("session %d: worker %d has done %d messages of %d and nothing can happen", id, p.ranks[rank], n, p.messages)
			}
		}
	}
	for i := range w.worker {
		if x := &w.worker[i]; x.busy || len(x.backlog) > 0 {
			return fmt.Errorf("worker %d hangs in %+v, with %v behind it", i, x.running, x.backlog)
		}
	}
	return nil
}

// key encodes w: worlds with the same key go on alike.
func (w *world) key() string {
	var b []byte
	put := func(ps []packet) {
		b = append(b, byte(len(ps)))
		for _, p := range ps {
			b = append(b, byte(p.session), byte(p.what), byte(p.number))
		}
	}
	flag := func(v bool) {
		b = append(b, map[bool]byte{true: 1}[v])
	}
	for i := range w.worker {
		x := &w.worker[i]
		put(w.down[i])
		put(w.up[i])
		put(x.backlog)
		put([]packet{x.running})
		flag(x.busy)
		b = append(b, byte(x.holder+1))
		for id := range w.plans {
			b = append(b, byte(x.turns[id].State))
			flag(x.open[id])
		}
	}
	for id, s := range w.sessions {
		put(w.input[id])
		for r := range w.plans[id].ranks {
			put(w.passed[id][r])
			b = append(b, byte(w.begun[id][r]))
		}
		b = append(b, byte(s.Turn.State))
		for _, v := range []bool{w.opened[id], w.over[id], w.gone[id], w.pending[id], s.own, s.queued} {
			flag(v)
		}
	}
	for _, s := range w.line.waiting {
		b = append(b, byte(s.ID))
	}
	return string(b)
}

// clone returns a copy that shares nothing with w.
func (w *world) clone() *world {
	c := *w
	c.line = NewLine(func(s *Session[int], what wire.TurnWhat) {
		c.told = append(c.told, packet{session: int(s.ID), what: Event(what)})
	})
	c.sessions = nil
	for _, s := range w.sessions {
		x := *s
		c.sessions = append(c.sessions, &x)
	}
	for _, s := range w.line.waiting {
		c.line.waiting = append(c.line.waiting, c.sessions[s.ID])
	}
	for r, s := range w.line.holder {
		c.line.holder[r] = c.sessions[s.ID]
	}
	maps.Copy(c.line.shared, w.line.shared)
	for i := range workers {
		c.down[i], c.up[i] = slices.Clone(w.down[i]), slices.Clone(w.up[i])
		x := &c.worker[i]
		x.turns, x.open, x.backlog = slices.Clone(x.turns), slices.Clone(x.open), slices.Clone(x.backlog)
	}
	c.input = clones(w.input)
	c.begun = clones(w.begun)
	c.passed = nil
	for _, p := range w.passed {
		c.passed = append(c.passed, clones(p))
	}
	c.opened, c.over, c.gone, c.pending = slices.Clone(w.opened), slices.Clone(w.over), slices.Clone(w.gone), slices.Clone(w.pending)
	return &c
}

func clones[T any](s [][]T) (out [][]T) {
	for _, x := range s {
		out = append(out, slices.Clone(x))
	}
	return out
}

// node is a world and how it came about.
type node struct {
	world  *world
	before *node
	by     step
}

// story returns the steps that lead to n.
func (n *node) story() string {
	if n.before == nil {
		return ""
	}
	return n.before.story() + "\n\t" + fmt.Sprintf(n.by.format, n.by.args...)
}

// walk goes through every world that the scenario can lead to, and returns how many there
// are.
func walk(t *testing.T, plans []plan, reached map[Turn]bool) int {
	t.Helper()
	seen := map[string]bool{}
	next := []*node{{world: newWorld(plans)}}
	for len(next) > 0 {
		n := next[len(next)-1]
		next = next[:len(next)-1]
		steps := n.world.steps()
		if err := n.world.check(len(steps) == 0); err != nil {
			t.Fatalf("%v, after%s", err, n.story())
		}
		for i, s := range n.world.sessions {
			reached[s.Turn] = true
			for _, x := range n.world.worker {
				reached[x.turns[i]] = true
			}
		}
		for i := range steps {
			w := n.world.clone()
			by := w.steps()[i]
			x := &node{w, n, by}
			if err := by.act(); err != nil {
				t.Fatalf("%v, after%s", err, x.story())
			}
			if key := w.key(); !seen[key] {
				seen[key] = true
				next = append(next, x)
			}
		}
		n.world = nil // only its name is needed from here on
	}
	return len(seen)
}

// TestModel walks through scenarios of sessions that share workers. Together they reach
// every state that the table has for a role.
func TestModel(t *testing.T) {
	reached := map[Turn]bool{}
	for _, c := range []struct {
		name  string
		plans []plan
	}{
		{"alone", []plan{{ranks: []int{0, 1, 2}, messages: 3, own: true}}},
		{"alone, its client goes", []plan{{ranks: []int{0, 1, 2}, messages: 2, own: true, leaves: true}}},
		{"two of the same workers", []plan{
			{ranks: []int{0, 1}, messages: 2, own: true},
			{ranks: []int{0, 1}, messages: 1, own: true},
		}},
		{"two with other first workers", []plan{
			{ranks: []int{0, 1}, messages: 2, own: true},
			{ranks: []int{1, 0}, messages: 2, own: true},
		}},
		{"a connection ends", []plan{
			{ranks: []int{0, 1}, messages: 2, own: true, breaks: true},
			{ranks: []int{1, 0}, messages: 1, own: true, late: true},
		}},
		{"a client goes", []plan{
			{ranks: []int{0, 1}, messages: 1, own: true, leaves: true},
			{ranks: []int{1, 0}, messages: 1, own: true},
		}},
		{"another opens", []plan{
			{ranks: []int{0, 1, 2}, messages: 2, own: true},
			{ranks: []int{1, 0}, messages: 1, own: true, late: true},
		}},
		{"another opens and goes", []plan{
			{ranks: []int{0, 1}, messages: 2, own: true},
			{ranks: []int{1, 0}, messages: 1, late: true, leaves: true},
		}},
		{"forwarded", []plan{
			{ranks: []int{0, 1}, messages: 2},
			{ranks: []int{1, 2}, messages: 2},
		}},
		{"own and forwarded", []plan{
			{ranks: []int{0, 1, 2}, messages: 1, own: true},
			{ranks: []int{1, 2}, messages: 2},
		}},
		{"a client of forwarded messages goes", []plan{
			{ranks: []int{0, 1, 2}, messages: 1, own: true},
			{ranks: []int{2, 1}, messages: 2, leaves: true},
		}},
		{"in a circle", []plan{
			{ranks: []int{0, 1}, messages: 2, own: true},
			{ranks: []int{1, 2}, messages: 1, own: true},
			{ranks: []int{2, 0}, messages: 2},
		}},
	} {
		t.Run(c.name, func(t *testing.T) { t.Logf("%d worlds", walk(t, c.plans, reached)) })
	}
	for role := range roles {
		for state := range states {
			known := changes[role][state] != [events]change{}
			if known != reached[Turn{role, state}] {
				t.Errorf("role %d in the state %v: in the table %v, reached %v", role, state, known, !known)
			}
		}
	}
}
