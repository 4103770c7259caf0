package trace

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/ringside-go/ringside/collective/protocol"
	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster/client"
	"github.com/ringside-go/ringside/tensor/cluster/metrics"
)

const (
	// every is the time between two questions to a worker. Workers keep more events than
	// that.
	every = 50 * time.Millisecond

	// patience bounds the wait for the last answers of busy workers.
	patience = 2 * time.Second

	// DefaultMaxBytes is the size that a file may have.
	DefaultMaxBytes = 256 << 20

	// Events is enough for client.NewEvents: more than a busy client does between two
	// questions.
	Events = 1 << 14
)

// Options of Start. Trace or Log is needed.
type Options struct {
	Trace    io.Writer // for JSON; nil for none
	Log      io.Writer // for lines of text; nil for none
	MaxBytes int64     // of each; 0: DefaultMaxBytes
}

// Recorder writes down what happens from Start until Stop, with what is under way then.
type Recorder struct {
	*writer
	begin   time.Time
	monitor *client.Monitor
	workers map[string]*worker
	lost    uint64 // events of workers and clients
	away    bool   // the dispatcher has been asked and not answered

	mu    sync.Mutex // guards the fields below
	marks []entry    // to be written
	next  *traced    // a client that has come; nil for none

	client *traced // the client in this process; nil for none
	early  []receipt
	ops    []tensor.Op
	args   []arg             // of the event that is written
	titles map[titled]string // of steps and programs
	shapes map[uint64]string // of ShapeText, by Event.Shape
	stop   context.CancelFunc
	over   chan struct{}
	failed error
}

// worker is a worker of a trace: a process of the timeline.
type worker struct {
	process int // of the file: numbers of the system may be the same on two hosts
	pid     uint64
	next    uint64    // the event to ask for
	asked   time.Time // and no answer yet; zero for none
	known   bool      // next is
	far     bool      // it has another host's clock
	ahead   int64     // of ours, where that is known
}

// traced is a client of a trace.
type traced struct {
	events  *client.Events
	name    string
	worker  string // which receives its messages
	process int
	session uint64         // the dispatcher's number; 0 while that is not known
	waiting []client.Event // until session is known
	dropped uint64
	buf     []client.Event
}

// receipt is the end of an arrow whose session is not known to be the client's yet.
type receipt struct {
	by      *worker
	session uint64
	entry   entry
}

// titled is what the name of an event is made of: the event's fields of these names.
type titled struct {
	kind uint8
	what uint64
}

// maxKnown bounds the names that are kept, and the texts of shapes.
const maxKnown = 1 << 12

// textOf returns the text of a key, which it makes where the key is new. Programs that
// run again and again have few.
func textOf[K comparable](texts map[K]string, key K, text func() string) string {
	s, ok := texts[key]
	if !ok {
		s = text()
		if len(texts) == maxKnown {
			clear(texts)
		}
		texts[key] = s
	}
	return s
}

// maxEarly bounds the receipts that are kept: what comes while a session opens.
const maxEarly = 1 << 12

// Start begins to write what the workers of the dispatcher behind m do. When it returns,
// those that answer measure.
func Start(ctx context.Context, m *client.Monitor, o *Options) (*Recorder, error) {
	if o == nil || o.Trace == nil && o.Log == nil || o.MaxBytes < 0 {
		return nil, fmt.Errorf("trace: %w: expected a Trace or a Log, and MaxBytes of at least 0", ipc.ErrBadOption)
	}
	r := &Recorder{writer: newWriter(o.Trace, o.Log, cmp.Or(o.MaxBytes, DefaultMaxBytes)), begin: time.Now(), monitor: m,
		workers: map[string]*worker{}, titles: map[titled]string{}, shapes: map[uint64]string{}, over: make(chan struct{})}
	if err := r.round(ctx, patience); err != nil {
		return nil, err
	}
	ctx, r.stop = context.WithCancel(context.WithoutCancel(ctx)) // Stop asks once more
	go func() {
		defer close(r.over)
		r.failed = r.run(ctx)
	}()
	return r, nil
}

// Follow has the recorder take the events of a client from now on, instead of those of
// one before. o are the options of the client's Dial, with a Trace, and a Name that no
// other session has.
func (r *Recorder) Follow(e *client.Engine, o *client.Options) {
	first, _ := e.Worker()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.next = &traced{events: o.Trace, name: o.Name, worker: first}
}

// Mark writes that the client's step n is over.
func (r *Recorder) Mark(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.marks = append(r.marks, entry{name: "step", cat: catStepMark, phase: 'i', thread: threadMessages,
		at: int64(time.Since(r.begin)), args: []arg{{key: "step", n: uint64(max(n, 0))}}})
}

// Done is closed when the recorder cannot go on, or is stopped.
func (r *Recorder) Done() <-chan struct{} { return r.over }

// Stop takes the last events, completes the files and returns the first error.
func (r *Recorder) Stop() error {
	r.stop()
	<-r.over
	if r.failed == nil {
		r.failed = r.last(context.Background())
	}
	r.take(true)
	err := r.end(r.lost)
	if r.failed != nil {
		return r.failed
	}
	return err
}

// last takes what happened until now. Answers to a round that was cut off may be from
// before the last events: then everybody is asked once more.
func (r *Recorder) last(ctx context.Context) error {
	owed := r.away || r.open()
	err := r.round(ctx, patience)
	if owed && err == nil {
		err = r.round(ctx, patience)
	}
	return err
}

// Events returns how many events were written, of how many workers. Lost ones happened
// faster than they were asked for, dropped ones had no room in the file. It is called
// after Stop.
func (r *Recorder) Events() (written, workers int, lost, dropped uint64) {
	return r.events, len(r.workers), r.lost, r.dropped
}

// Room returns how long after Start the first event had no room, and the MaxBytes with
// which all would have had it. It is called after Stop, where Events has dropped ones.
func (r *Recorder) Room() (full time.Duration, bytes int64) {
	return time.Duration(r.full), max(r.wrote+r.missing[0], r.logged+r.missing[1]) + room
}

// Kept returns how long after Start the files have all events at least, to within the
// time between two questions. It is called after a Stop that returned an error of
// writing.
func (r *Recorder) Kept() time.Duration { return time.Duration(r.keptByAll()) }

// run asks until ctx is done.
func (r *Recorder) run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(every):
		}
		if err := r.round(ctx, every); err != nil {
			if ctx.Err() != nil { // the round was cut off
				return r.err
			}
			return cmp.Or(r.err, err)
		}
	}
}

// round asks every worker that owes no answer, and takes answers until no worker has more
// to tell or one takes too long.
func (r *Recorder) round(ctx context.Context, wait time.Duration) error {
	if !r.away {
		if err := r.monitor.AskDispatcher(ctx); err != nil {
			return err
		}
		r.away = true
	}
	until, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	defer r.take(false)
	for r.away || r.open() {
		a, err := r.monitor.Next(until)
		if err != nil {
			if until.Err() != nil && ctx.Err() == nil {
				return r.err // some worker is busy
			}
			return err
		}
		switch a := a.(type) {
		case client.Counters:
			r.away = false
			r.dispatcher(a)
			for _, name := range metrics.WorkersOf(a) {
				x := r.worker(name, a.Get(metrics.OfWorker(name, metrics.PID)), a.Get(metrics.OfWorker(name, metrics.Far)) > 0)
				if x.asked.IsZero() {
					if err := r.ask(ctx, name, x); err != nil {
						return err
					}
				}
			}
		case *client.WorkerReport:
			x := r.workers[a.Worker]
			if x == nil || x.asked.IsZero() {
				continue
			}
			more := a.More
			r.answer(x, a)
			r.monitor.Reuse(a)
			if more {
				if err := r.ask(ctx, a.Worker, x); err != nil {
					return err
				}
			}
		}
	}
	return r.err
}

// open reports whether some worker owes an answer.
func (r *Recorder) open() bool {
	for _, x := range r.workers {
		if !x.asked.IsZero() {
			return true
		}
	}
	return false
}

func (r *Recorder) ask(ctx context.Context, name string, x *worker) error {
	x.asked = time.Now()
	return r.monitor.Ask(ctx, client.Question{Events: true, Since: x.next, Worker: name})
}

// worker finds a worker, or begins one.
func (r *Recorder) worker(name string, pid uint64, far bool) *worker {
	x := r.workers[name]
	if x == nil || x.pid != pid { // it is there for the first time, or was started again
		x = &worker{process: r.process(fmt.Sprintf("worker %s (process %d)", name, pid), "messages"), pid: pid, far: far}
		r.workers[name] = x
	}
	return x
}

// dispatcher writes the dispatcher's counters.
func (r *Recorder) dispatcher(a client.Counters) {
	if len(r.names) == 0 {
		r.process(fmt.Sprintf("dispatcher (process %d)", a.Get(metrics.PID)))
	}
	r.put(&entry{name: "dispatcher", phase: 'C', at: int64(time.Since(r.begin)), process: 1,
		args: []arg{{key: metrics.Messages, n: a.Get(metrics.Messages)}, {key: metrics.Sessions, n: a.Get(metrics.Sessions)}}})
}

// answer writes what a worker did.
func (r *Recorder) answer(x *worker, a *client.WorkerReport) {
	now := time.Now()
	if x.far && !x.known {
		// The answer was made between the question and now. In the middle, the error is
		// at most half of that.
		half := now.Sub(x.asked) / 2
		x.ahead = int64(a.Now) - x.asked.Add(half).UnixNano()
		r.put(&entry{name: fmt.Sprintf("clock set by an exchange, to %v", half.Round(time.Microsecond)), cat: "clock", phase: 'i',
			at: r.at(x, a.Now), process: x.process, thread: threadMessages, args: []arg{{key: "precision_ns", n: uint64(half)}}})
	}
	x.asked = time.Time{}
	if x.known && a.First > x.next {
		r.lost += a.First - x.next
		r.put(&entry{name: fmt.Sprintf("%d events lost", a.First-x.next), phase: 'i', at: r.at(x, a.Now), process: x.process, thread: threadMessages})
	}
	r.change()
	if c := r.client; c != nil && c.session == 0 && c.first(r) == x {
		for i := range a.Sessions {
			if s := &a.Sessions[i]; s.Name == c.name {
				c.session = max(c.session, s.ID)
			}
		}
		if c.session != 0 {
			for i := range r.early {
				if e := &r.early[i]; e.by == x && e.session == c.session {
					r.put(&e.entry)
				}
			}
			r.early = nil
		}
	}
	for i := range a.Events {
		r.event(x, a.First+uint64(i), &a.Events[i])
	}
	x.next, x.known = a.First+uint64(len(a.Events)), true
	r.put(&entry{name: "arena", phase: 'C', at: r.at(x, a.Now), process: x.process, args: []arg{
		{key: metrics.ArenaInUse, n: a.Counters.Get(metrics.ArenaInUse)}, {key: metrics.ArenaBytes, n: a.Counters.Get(metrics.ArenaBytes)}}})
}

// at returns a time of a worker's clock as one of the trace.
func (r *Recorder) at(x *worker, ns uint64) int64 { return since(r.begin, ns-uint64(x.ahead)) }

// flow is the id of the arrow of a client's message.
func flow(session uint64, e *client.Event) string {
	b := strconv.AppendUint(make([]byte, 0, 64), session, 10)
	b = append(append(append(b, '.'), e.Message()...), '.')
	return string(strconv.AppendUint(b, uint64(e.Number()), 10))
}

// event writes one event of a worker. Events that ended before the trace began are left
// out: a worker still has those of the traces before.
func (r *Recorder) event(x *worker, number uint64, e *client.Event) {
	if r.at(x, e.Begin)+int64(e.Took) < 0 {
		return
	}
	r.args = append(r.args[:0], arg{key: "session", n: e.Session}, arg{key: "bytes", n: e.Bytes})
	out := entry{phase: 'X', at: r.at(x, e.Begin), took: int64(e.Took), process: x.process, thread: threadMessages, args: r.args}
	switch e.Kind {
	case client.EventMessage:
		out.name, out.cat = e.Message(), catMessage
	case client.EventAside:
		out.name, out.cat, out.thread = e.Message(), catMessage, threadParallel
	case client.EventProgram, client.EventCompile:
		verb := "program"
		if out.cat = catProgram; e.Kind == client.EventCompile {
			verb, out.cat = "compile", catCompile
		}
		out.name = textOf(r.titles, titled{uint8(e.Kind), e.What}, func() string { return fmt.Sprintf("%s %08x", verb, uint32(e.What>>32)) })
		out.args[1].key = "instructions"
	case client.EventStep:
		out.name, out.cat = textOf(r.titles, titled{uint8(e.Kind), e.What}, func() string { return r.stepName(e) }), catStep
		if shape := textOf(r.shapes, e.Shape, e.ShapeText); shape != "" {
			r.args = append(r.args, arg{key: "shapes", text: shape})
			out.args = r.args
		}
	case client.EventCollective, client.EventOverlapped:
		out.name, out.cat = "unknown collective", catCollective
		kind, way := e.Collective()
		if k := protocol.Kind(kind); k.Valid() {
			out.name = k.String()
		}
		if way := way.String(); way != "" {
			r.args = append(r.args, arg{key: "path", text: way})
			out.args = r.args
		}
	default:
		return // of a newer worker
	}
	// An overlapped collective may begin in one program and end in another: it is an
	// asynchronous event, written as two.
	if e.Kind == client.EventOverlapped {
		out.phase, out.id = 'b', fmt.Sprint(x.process, ".", number)
		took := out.took
		r.put(&out)
		out.phase, out.at, out.args = 'e', out.at+took, nil
	}
	r.put(&out)
	if e.Kind != client.EventMessage || e.Number() == 0 {
		return
	}
	arrow := entry{name: "message", cat: catFlow, phase: 'f', at: out.at, process: x.process, thread: threadMessages, id: flow(e.Session, e)}
	switch c := r.client; {
	case c == nil || c.session == 0:
		if len(r.early) < maxEarly {
			r.early = append(r.early, receipt{x, e.Session, arrow})
		}
	case c.session == e.Session && c.first(r) == x:
		r.put(&arrow)
	}
}

// first returns the worker that receives the client's messages.
func (c *traced) first(r *Recorder) *worker { return r.workers[c.worker] }

// change goes on with a client that has come.
func (r *Recorder) change() {
	r.mu.Lock()
	next := r.next
	r.next = nil
	r.mu.Unlock()
	if next != nil {
		r.takeFrom(r.client, true)
		r.client = next
		next.process = r.process("client "+next.name, "session")
	}
}

// stepName is the name of a step: its operations.
func (r *Recorder) stepName(e *client.Event) string {
	r.ops = e.Ops(r.ops[:0])
	var b strings.Builder
	for i, op := range r.ops {
		if i > 0 {
			b.WriteByte('+')
		}
		b.WriteString(op.String())
	}
	return b.String()
}

// take writes marks and the client's events. Until the client's session is known they
// wait, but not beyond last.
func (r *Recorder) take(last bool) {
	r.change()
	r.takeFrom(r.client, last)
	r.mu.Lock()
	marks := r.marks
	r.marks = nil
	r.mu.Unlock()
	for i := range marks {
		if r.client != nil {
			marks[i].process = r.client.process
			r.put(&marks[i])
		}
	}
}

// takeFrom writes the events of a client.
func (r *Recorder) takeFrom(c *traced, last bool) {
	if c == nil {
		return
	}
	for {
		var dropped uint64
		c.buf, dropped = c.events.Take(c.buf[:0], Events)
		r.lost, c.dropped = r.lost+dropped-c.dropped, dropped
		c.waiting = append(c.waiting, c.buf...)
		if len(c.buf) < Events {
			break
		}
	}
	if c.session == 0 && !last && len(c.waiting) < client.MaxEvents {
		return
	}
	for i := range c.waiting {
		r.clientEvent(c, &c.waiting[i])
	}
	c.waiting = c.waiting[:0]
}

// clientEvent writes one event of a client.
func (r *Recorder) clientEvent(c *traced, e *client.Event) {
	out := entry{cat: catClient, phase: 'X', at: since(r.begin, e.Begin), took: int64(e.Took), process: c.process, thread: threadMessages}
	r.args = r.args[:0]
	switch e.Kind {
	case client.EventSent:
		out.name = textOf(r.titles, titled{uint8(e.Kind), uint64(uint32(e.What))}, func() string { return "send " + e.Message() })
		r.args = append(r.args, arg{key: "bytes", n: e.Bytes})
	case client.EventSubmit:
		out.name = "submit"
		r.args = append(r.args, arg{key: "run", n: e.What})
	case client.EventWait:
		out.name, out.cat = "wait for the answer", catWait
		r.args = append(r.args, arg{key: "run", n: e.What})
	case client.EventUpload, client.EventRead, client.EventFree:
		out.name, out.phase = "free", 'i'
		if e.Kind == client.EventUpload {
			out.name = "upload"
		} else if e.Kind == client.EventRead {
			out.name = "read"
		}
		r.args = append(r.args, arg{key: "tensors", n: e.What}, arg{key: "bytes", n: e.Bytes})
	}
	out.args = r.args
	r.put(&out)
	if e.Kind == client.EventSent && e.Number() > 0 && c.session != 0 {
		r.put(&entry{name: "message", cat: catFlow, phase: 's', at: out.at, process: c.process, thread: threadMessages, id: flow(c.session, e)})
	}
}
