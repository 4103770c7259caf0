package client

import (
	"fmt"
	"slices"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
	"github.com/ringside-go/ringside/tensor/shard"
	"github.com/ringside-go/ringside/tensor/shard/config"
)

// team is the workers that serve a session, and how its tensors lie on them.
type team struct {
	config  *config.Config
	workers []member       // by rank
	opened  int            // number of workers that have opened the session
	stages  []config.Stage // the workers' stages
	// how uploads lie, where signals alone decide; nil otherwise
	hints   shard.Signals
	stageOf map[tensor.Signal]int // the stages of signals, where there are several
	apart   bool                  // some worker shares no memory with the client
	bytes   uint64                // as MaxBytes
}

// member is a worker of the session.
type member struct {
	stage  int
	mesh   shard.Mesh // of its stage
	place  int        // its rank there
	opened bool
	name   string
	pid    uint32
	// data connection of a worker that shares no memory; nil for others
	data                *dataConn
	acked               uint64 // of its last Done
	calls, moved, plans uint64
	took, hidden        uint64 // ns
}

// MaxBytes returns how many bytes of tensors the session may hold at each of its workers;
// 0 if they did not say.
func (t *team) MaxBytes() uint64 { return t.bytes }

// near says whether some worker shares memory with us.
func (t *team) near() bool {
	return slices.ContainsFunc(t.workers, func(w member) bool { return w.data == nil })
}

// lies returns how an upload lies on the workers, if its signal alone decides that.
func (t *team) lies(u *tensor.Upload) (stage uint32, layout uint8) {
	if t.hints == nil || u.Signal.Name == "" {
		return 0, 0
	}
	at := 0
	if len(t.stages) > 1 {
		k, ok := shard.For(t.stageOf, u.Signal)
		if !ok {
			return 0, 0
		}
		at, stage = k, uint32(1+k)
	}
	l, err := t.hints.Made(u.Signal, t.stages[at].Mesh, u.Shape)
	if err != nil {
		return 0, 0 // the first program that reads the upload is refused
	}
	return stage, l.Bits()
}

// join notes that a worker serves the session.
func (t *team) join(m *wire.SessionOpened) error {
	if int(m.Rank) >= len(t.workers) {
		return fmt.Errorf("session opened by worker %d of %d", m.Rank, len(t.workers))
	}
	w := &t.workers[m.Rank]
	if w.opened {
		return fmt.Errorf("session opened twice, by %q and %q", w.name, m.Worker)
	}
	w.opened, w.name, w.pid = true, m.Worker, m.PID
	if m.Bytes > 0 && (t.bytes == 0 || m.Bytes < t.bytes) {
		t.bytes = m.Bytes
	}
	if m.Apart != (w.data != nil && w.data.conn != nil) {
		return fmt.Errorf("session opened by worker %q, apart: %v, without a word before", m.Worker, m.Apart)
	}
	t.opened++
	return nil
}

// hearLink keeps what a worker says that wants a conn with us.
func (t *team) hearLink(src []byte) error {
	var m wire.Link
	if err := wire.Parse(src, &m); err != nil {
		return err
	}
	if int(m.Rank) >= len(t.workers) {
		return fmt.Errorf("a word of worker %d of %d", m.Rank, len(t.workers))
	}
	w := &t.workers[m.Rank]
	if w.data == nil && !w.opened {
		w.data = &dataConn{}
		t.apart = true
	}
	l := w.data
	if l == nil || l.conn != nil || m.Round != l.next || m.Round > 0 && len(m.Token) > 0 {
		return fmt.Errorf("a word of worker %d in round %d, out of turn", m.Rank, m.Round)
	}
	if m.Round == 0 {
		l.token = append([]byte(nil), m.Token...)
	}
	l.said[m.Round] = append([]byte{}, m.Data...)
	l.next++
	return nil
}

// Unfuses implements tensor.Unfuser for the Engine: it asks Options.Config.
func (t *team) Unfuses(signal string) bool { return t.config.Unfuses(signal) }
