package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster/client"
	"github.com/ringside-go/ringside/tensor/cpu"
	"github.com/ringside-go/ringside/tensor/shard/config"
)

// session is a session and the tensors of it that the caller holds by number. Any thread
// may call its methods: each waits for those of others to end.
type session struct {
	s     *tensor.Session
	pulse *pulse     // the context of its waits
	busy  sync.Mutex // is held while a call is under way

	lateMu sync.Mutex
	late   []func() // wait for the end of a call

	viewsMu sync.Mutex
	views   int  // that are not released
	closed  bool // a view ends it if there are any

	here bool    // programs run in this process, and so on the thread that waits
	work float64 // roughly what is recorded takes, in elements; only for here

	// behind is not nil if the call under way ends before the program that it ran.
	behind <-chan error

	tensors map[int64]*held
	born    int64   // how many tensors were made
	batch   batch   // of the record under way
	ints    []int64 // of the call under way
	args    []tensor.Arg
	in      []*held
}

// lastTensor is the number of the process's newest tensor: no two sessions use one.
var lastTensor atomic.Int64

// sessionOptions are what opens a session, as JSON. Zero fields are the defaults.
type sessionOptions struct {
	Name       string `json:"name"`
	Addr       string `json:"addr"`    // of the dispatcher
	Here       bool   `json:"here"`    // in this process, without a dispatcher
	Threads    int    `json:"threads"` // in this process
	Workers    int    `json:"workers"`
	Config     string `json:"config"`      // text of a file of placements
	ConfigFile string `json:"config_file"` // its name in errors
	Secret     string `json:"secret_file"`
	TLS        bool   `json:"tls"`
	Seed       uint64 `json:"seed"`
}

// fromJSON reads options; unknown keys are errors.
func fromJSON(text string, options any) error {
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(options); err != nil {
		return fmt.Errorf("%w: options %.200q: %w", errArgument, text, err)
	}
	return nil
}

// openSession opens a session. Its waits end when interrupted returns true; site is the
// line of the caller.
func openSession(options string, interrupted func() bool, site func() string) (*session, error) {
	var o sessionOptions
	if err := fromJSON(options, &o); err != nil {
		return nil, err
	}
	p := newPulse(interrupted)
	c := &client.Options{Name: o.Name, Addr: o.Addr, Workers: o.Workers, Session: &tensor.SessionOptions{Seed: o.Seed, Context: p, Site: site},
		Local: func() (tensor.Engine, error) { return cpu.NewEngine(&cpu.Options{Threads: o.Threads}) }}
	var err error
	if o.Config != "" {
		if c.Config, err = config.Parse(o.ConfigFile, []byte(o.Config)); err != nil {
			return nil, err
		}
	}
	if o.Secret != "" {
		if c.Secret, err = ipc.ReadSecret(o.Secret); err != nil {
			return nil, err
		}
	}
	if o.TLS {
		if c.TLS, err = (ipc.TLSFiles{On: true}).Read(); err != nil {
			return nil, err
		}
	}
	out := &session{pulse: p, tensors: map[int64]*held{}}
	local := c.Local
	c.Local = func() (tensor.Engine, error) {
		out.here = true
		c.Session.Context = context.Background() // no signal ends a program
		return local()
	}
	if o.Here {
		var e tensor.Engine
		if e, err = c.Local(); err == nil {
			out.s = tensor.NewSession(e, c.Session)
		}
	} else {
		out.s, err = client.Open(p, c)
		if !out.here {
			p.never = make(chan struct{})
		}
	}
	return out, p.cause(err)
}

// enter begins a call, once those of other threads have ended.
func (s *session) enter() error {
	if s.busy.TryLock() {
		s.pulse.renew()
		return nil
	}
	entered := make(chan struct{})
	gone := make(chan struct{})
	go func() {
		s.busy.Lock()
		select {
		case entered <- struct{}{}:
		case <-gone:
			s.leave()
		}
	}()
	t := time.NewTicker(pulseEvery)
	defer t.Stop()
	for {
		select {
		case <-entered:
			s.pulse.renew()
			return nil
		case <-t.C:
			if s.pulse.interrupted() {
				close(gone)
				return errInterrupted
			}
		}
	}
}

// tryEnter begins a call if no other is under way.
func (s *session) tryEnter() bool { return s.busy.TryLock() }

// leave ends a call. If its wait left a program behind, other calls wait for that.
func (s *session) leave() {
	if behind := s.behind; behind != nil {
		s.behind = nil
		go func() {
			<-behind // its error is that of the session's next wait
			s.leave()
		}()
		return
	}
	s.busy.Unlock()
	s.settle()
}

// later calls f now or, if a call is under way, at its end. It does not wait: a handler
// of a signal may be what calls it, on the thread of that call.
func (s *session) later(f func()) {
	s.lateMu.Lock()
	s.late = append(s.late, f)
	s.lateMu.Unlock()
	s.settle()
}

// settle calls what later left, unless a call is under way: that does it as it ends.
func (s *session) settle() {
	for s.hasLate() && s.tryEnter() {
		s.lateMu.Lock()
		late := s.late
		s.late = nil
		s.lateMu.Unlock()
		for _, f := range late {
			f()
		}
		s.busy.Unlock()
	}
}

func (s *session) hasLate() bool {
	s.lateMu.Lock()
	defer s.lateMu.Unlock()
	return len(s.late) > 0
}

// end returns the error of a call, which the session forgets: the caller raises it. The
// first error is that of a program which was left behind, if one failed.
func (s *session) end(err error) error {
	sticky := s.s.ClearErr()
	if err == nil || sticky != nil && errors.Is(err, tensor.ErrUnknown) {
		err = sticky
	}
	if errors.Is(err, tensor.ErrUnknown) {
		err = fmt.Errorf("%w: it was to be computed together with an operation that failed, whose error was raised before", err)
	}
	return s.pulse.cause(err)
}

// get returns a tensor of the session.
func (s *session) get(id int64) (*held, error) {
	if h := s.batch.find(id); h != nil {
		return h, nil
	}
	if h, ok := s.tensors[id]; ok {
		return h, nil
	}
	return nil, fmt.Errorf("%w: tensor %d, expected one of this session that was not dropped", errHandle, id)
}

// put takes a new tensor, or its error. in are those that it was computed from.
func (s *session) put(t *tensor.Tensor, in ...*held) (int64, error) {
	if err := t.Err(); err != nil {
		return 0, s.end(err)
	}
	id := lastTensor.Add(1)
	s.tensors[id] = newHeld(s, t, in)
	return id, nil
}

// The fields of the first word of a call, from the lowest bit.
const (
	opBits      = 12
	argBits     = 13 // arguments
	intBits     = 8  // attributes
	scalarBits  = 8  // a bit for each of the first arguments that is a number
	noGradBits  = 1  // the result has no graph
	signalBits  = 16 // number of a signal
	scalarsFrom = opBits + argBits + intBits
)

// callHead is the first word of a call.
type callHead struct {
	op         tensor.Op
	args, ints int
	scalars    uint64
	noGrad     bool
	signal     int
}

// parseHead takes a word apart.
func parseHead(w uint64) (h callHead) {
	field := func(bits int) uint64 {
		v := w & (1<<bits - 1)
		w >>= bits
		return v
	}
	h.op, h.args, h.ints = tensor.Op(field(opBits)), int(field(argBits)), int(field(intBits))
	h.scalars, h.noGrad, h.signal = field(scalarBits), field(noGradBits) == 1, int(field(signalBits))
	return h
}

// apply records an operation and returns the number of its result; see
// operate.
func (s *session) apply(h callHead, words []int64) (int64, error) {
	t, err := operate(s, h, words)
	if err != nil {
		return 0, err
	}
	return s.put(t, s.in...)
}

// operate records an operation: of a head, its arguments (numbers of tensors, or bits of
// a double) and its attributes. The attributes of random operations come without a
// stream. The operands are in s.in then.
func operate(s *session, h callHead, words []int64) (*tensor.Tensor, error) {
	if len(words) != h.args+h.ints || !h.op.Valid() {
		return nil, fmt.Errorf("%w: a call of %v with %d words, expected an operation and %d arguments and %d attributes", errArgument, h.op, len(words), h.args, h.ints)
	}
	s.args, s.in = s.args[:0], s.in[:0]
	for i, w := range words[:h.args] {
		if i < scalarBits && h.scalars>>i&1 == 1 {
			s.args = append(s.args, tensor.S(math.Float64frombits(uint64(w))))
			continue
		}
		x, err := s.get(w)
		if err != nil {
			return nil, err
		}
		s.args, s.in = append(s.args, tensor.T(x.t)), append(s.in, x)
	}
	s.ints = append(s.ints[:0], words[h.args:]...)
	var t *tensor.Tensor
	var err error
	if record := func() { t, err = s.record(h.op, words) }; h.signal > 0 || h.noGrad {
		s.under(h, record)
	} else {
		record()
	}
	if err != nil {
		return nil, err
	}
	if s.here {
		s.count(t)
	}
	return t, nil
}

// count adds the work of an operation, whose operands are in s.in, to that recorded.
func (s *session) count(t *tensor.Tensor) {
	n := float64(t.Elems())
	if len(s.in) > 1 && t.Err() == nil {
		switch w := s.in[1].t; w.Rank() {
		case 4: // a convolution, or a product
			n *= float64(w.Elems()) / float64(max(w.Dim(0), 1))
		default:
			n *= float64(max(s.in[0].t.Dim(-1), 1))
		}
	}
	s.work += n
}

// longWork is so much that a program may take longer than the answer to a signal, some
// milliseconds.
const longWork = 1 << 24

// wait calls f, which runs what is recorded. Much work of this process runs before that,
// beside the caller's thread: a signal ends the wait, and the program goes on.
func (s *session) wait(f func() error) error {
	long := s.work > longWork
	s.work = 0
	if long {
		if err := beside(s, s.s.Flush); err != nil {
			return err
		}
	}
	return s.waited(f())
}

// beside calls f, which runs a program, beside the caller's thread and waits for its end.
// A signal ends the wait, and f goes on. Then leave keeps the session locked until f
// ends, and nothing of it may be used before.
func beside(s *session, f func() error) error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	t := time.NewTicker(pulseEvery)
	defer t.Stop()
	for {
		select {
		case err := <-done:
			return s.end(err)
		case <-t.C:
			if s.pulse.interrupted() {
				s.behind = done
				return errInterrupted
			}
		}
	}
}

// waited returns the error of a wait. One that ended well just as a signal came is
// interrupted, too: the caller's language has an exception to raise.
func (s *session) waited(err error) error {
	if err == nil {
		err = s.pulse.Context.Err()
	}
	return s.end(err)
}

// under calls f without graphs and with a signal, as h says.
func (s *session) under(h callHead, f func()) {
	if h.signal > 0 {
		name, run := signals.name(h.signal), f
		f = func() { s.s.Signal(name, run) }
	}
	if h.noGrad {
		s.s.NoGrad(f)
	} else {
		f()
	}
}

// record records the operation in s.args and s.ints; words are the arguments as they
// came.
func (s *session) record(op tensor.Op, words []int64) (*tensor.Tensor, error) {
	switch op {
	case tensor.OpRand, tensor.OpRandN:
		if len(s.ints) == 0 || len(s.args) != 0 || s.ints[0] < 0 || s.ints[0] > math.MaxUint8 {
			return nil, fmt.Errorf("%w: %v of attributes %v, expected a dtype and a shape", errArgument, op, s.ints)
		}
		draw := tensor.Rand
		if op == tensor.OpRandN {
			draw = tensor.RandN
		}
		return draw(s.s, tensor.DType(s.ints[0]), toInts(s.ints[1:])...), nil
	case tensor.OpDropout:
		if len(s.in) != 1 || len(s.args) != 2 {
			return nil, fmt.Errorf("%w: dropout of %d arguments, expected a tensor and a probability", errArgument, len(s.args))
		}
		return s.in[0].t.Dropout(math.Float64frombits(uint64(words[1]))), nil
	}
	return s.s.Apply(op, s.ints, s.args...), nil
}

// toInts returns a copy of x.
func toInts(x []int64) []int {
	out := make([]int, len(x))
	for i, n := range x {
		out[i] = int(n)
	}
	return out
}

// upload makes a tensor of a memory image, under the signal of head.
func (s *session) upload(head uint64, dtype int, data []byte, shape []int) (int64, error) {
	if dtype <= 0 || dtype > math.MaxUint8 {
		return 0, fmt.Errorf("%w: dtype %d", errArgument, dtype)
	}
	var t *tensor.Tensor
	s.under(parseHead(head), func() { t = tensor.FromBytes(s.s, tensor.DType(dtype), data, shape...) })
	return s.put(t)
}

// description is what describe writes: dtype, flags, number of dims, dims.
type description [3 + tensor.MaxRank]int64

// Flags of a description.
const (
	flagLeaf  = 1 // requires a gradient
	flagGraph = 2 // was computed from a leaf
)

// describe describes a tensor.
func (s *session) describe(id int64) (d description, err error) {
	h, err := s.get(id)
	if err != nil {
		return d, err
	}
	d[0], d[2] = int64(h.t.DType()), int64(h.t.Rank())
	if h.t.RequiresGrad() {
		d[1] |= flagLeaf
	}
	if h.t.Node() != nil {
		d[1] |= flagGraph
	}
	for i, n := range h.t.Shape() {
		d[3+i] = int64(n)
	}
	return d, nil
}

// read copies a tensor's memory image to dst, which has its length.
func (s *session) read(id int64, dst []byte) error {
	h, err := s.get(id)
	if err != nil {
		return err
	}
	return s.wait(func() error {
		return h.t.ViewBytes(func(b []byte) error {
			if len(b) != len(dst) {
				return fmt.Errorf("%w: a buffer of %d bytes for %v", errArgument, len(dst), h.t)
			}
			copy(dst, b)
			return nil
		})
	})
}

// view returns a tensor's memory image, which stays as it is until release, also when the
// session is closed before.
func (s *session) view(id int64) (b []byte, release func(), err error) {
	h, err := s.get(id)
	if err != nil {
		return nil, nil, err
	}
	err = s.wait(func() (err error) {
		b, release, err = h.t.Pin()
		return err
	})
	if err != nil {
		if release != nil {
			release()
		}
		return nil, nil, err
	}
	s.viewsMu.Lock()
	defer s.viewsMu.Unlock()
	if s.closed && s.views == 0 {
		release()
		return nil, nil, fmt.Errorf("view: %w", tensor.ErrClosed)
	}
	s.views++
	give := release
	return b, func() { give(); unviewed(s) }, nil
}

// unviewed counts a view of s that is released. The last one of a session that was closed
// ends it.
func unviewed(s *session) {
	s.viewsMu.Lock()
	s.views--
	last := s.closed && s.views == 0
	s.viewsMu.Unlock()
	if last {
		_ = disconnect(s) // the caller has closed it before, and has no use for an error
	}
}

// flush submits what is recorded and, if wait is set, waits until it has run.
func (s *session) flush(wait bool) error {
	if wait {
		return s.wait(s.s.Sync)
	}
	return s.wait(s.s.Flush)
}

// drop drops tensors; unknown ones are left out.
func (s *session) drop(ids []int64) {
	for _, id := range ids {
		if h, ok := s.tensors[id]; ok {
			delete(s.tensors, id)
			h.release()
		}
	}
}

// scope drops the tensors that were made since mark, but those to be kept. Without a mark
// it returns one.
func (s *session) scope(mark int64, keep []int64) int64 {
	if mark == 0 {
		return s.born + 1
	}
	for id, h := range s.tensors {
		if h.born >= mark && !slices.Contains(keep, id) {
			s.drop([]int64{id})
		}
	}
	return 0
}

// item copies the memory image of a tensor's one element and returns its dtype.
func (s *session) item(id int64, dst []byte) (int64, error) {
	h, err := s.get(id)
	if err != nil {
		return 0, err
	}
	if n := h.t.Elems(); n != 1 {
		return 0, fmt.Errorf("%w: item of %v, expected one element", tensor.ErrShape, h.t)
	}
	err = s.wait(func() error {
		return h.t.ViewBytes(func(b []byte) error { copy(dst, b); return nil })
	})
	return int64(h.t.DType()), err
}

// about describes the session as JSON.
func (s *session) about() (string, error) {
	if err := s.enter(); err != nil {
		return "", err
	}
	defer s.leave()
	st := s.s.Stats()
	seed, counter := s.s.Random()
	text, err := json.Marshal(map[string]any{"engine": s.s.Engine().Name(), "ops": st.Ops, "programs": st.Programs, "uploads": st.Uploads,
		"uploaded_bytes": st.UploadedB, "fetches": st.Fetches, "live": st.Live, "held": len(s.tensors),
		"random": [2]uint64{seed, counter}})
	return string(text), err
}

// close closes the session, also while a thread waits in a call of it. While there are
// views it only frees the tensors: a worker gives the memory of a session that has ended
// to others.
func (s *session) close() error {
	s.viewsMu.Lock()
	s.closed = true
	viewed := s.views > 0
	s.viewsMu.Unlock()
	if !viewed {
		return disconnect(s)
	}
	s.later(func() {
		s.drop(slices.Collect(maps.Keys(s.tensors)))
		_ = s.s.Flush() // it sends what was freed; the session is not used any more
	})
	return nil
}

// disconnect ends s. A handler of a signal may be what calls it, on the thread
// of a call that is under way: it does not wait for that one.
func disconnect(s *session) error {
	if !s.tryEnter() {
		go s.s.Close()
		return nil
	}
	defer s.busy.Unlock()
	return s.s.Close()
}

// cause returns the error of a call whose context is p: what ended it, if that is why.
func (p *pulse) cause(err error) error {
	if err != nil && p.Context.Err() != nil && errors.Is(err, p.Context.Err()) {
		return fmt.Errorf("%w: %w", context.Cause(p.Context), err)
	}
	return err
}
