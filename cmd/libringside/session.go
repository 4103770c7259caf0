package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
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

	line string // of the operation that is recorded; empty: that of the call under way

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
	err := d.Decode(options)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Errorf("%w: %s is a %s, expected %v", errArgument, wrong.Field, wrong.Value, wrong.Type)
	}
	if err != nil {
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
	out := &session{pulse: p, tensors: map[int64]*held{}}
	from := func() string {
		if out.line != "" {
			return out.line
		}
		return site()
	}
	c := &client.Options{Name: o.Name, Addr: o.Addr, Workers: o.Workers, Session: &tensor.SessionOptions{Seed: o.Seed, Context: p, Site: from},
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
