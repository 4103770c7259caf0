package worker

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/shm"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
	"github.com/ringside-go/ringside/tensor/shard"
)

// errInternal is a bug here that costs a session.
var errInternal = errors.New("internal error")

// session is one client's values and what is known about its side.
type session struct {
	w         *Worker
	id        uint64
	name      string
	space     Space
	programs  map[tensor.Hash]*program
	bytes     int // of encoded programs
	assembler wire.Assembler
	history   wire.History
	announced map[uint64]struct{} // our segments that the client has
	returned  []wire.Handle       // uploads not needed any more, for the next answer
	returnedB int                 // bytes of these

	*shared // of a session with several workers; nil for others

	link   *link   // to a client that shares no memory with us; nil for others
	direct *direct // the conn with a client of this host; nil for others

	leased  []wire.Handle // by the batch under way
	inlined []byte        // of its results, in the answer
	saving  *saving       // the Save under way

	backlog  []waiting     // messages that wait for their turn, oldest first
	backlogB int           // bytes of these
	stopped  bool          // the dispatcher was told to hold back
	used     time.Duration // of the worker's time, see turns.go

	seen watchedSession // while somebody looks
}

// program is one that the session sent: compiled, or to be rewritten.
type program struct {
	Program
	bytes int    // encoded
	err   error  // why it cannot be run
	runs  uint64 // times that it was to be run

	parsed *tensor.Program     // where several workers run it together: what they rewrite,
	plans  map[string]*carried // and as what, by how its inputs lie
	chosen []shard.Layout      // for inputs that lie nowhere yet; nil before the first run
}

func newSession(w *Worker, id uint64, name string, quota uint64) *session {
	s := &session{
		w: w, id: id, name: name, space: w.dev.Open(),
		programs: map[tensor.Hash]*program{}, announced: map[uint64]struct{}{},
	}
	if quota > 0 {
		s.space = &limited{Space: s.space, quota: int(min(quota, math.MaxInt))}
	}
	return s
}

// close frees everything the session held here, results that its client holds as well.
func (s *session) close() {
	s.free()
	s.w.dev.Arena().ReleaseOwner(s.id)
}

// free frees everything but what is leased to the client.
func (s *session) free() {
	s.drop()
	s.endSave()
	if s.shared != nil {
		s.letGo()
		if s.bound {
			s.w.unbind()
			s.bound = false
		}
		s.shared.close(s.w)
	}
	if s.link != nil {
		s.link.close()
	}
	s.space.Close()
	s.w.table.ReleaseOwner(s.id)
}

// handle does what one message says. errProtocol ends the session, any other error the worker.
func (s *session) handle(ctx context.Context, m *ipc.Message) error {
	switch m.Kind {
	case wire.KindSegment:
		return s.addSegment(m)
	case wire.KindBody:
		return s.addProgram(m)
	case wire.KindRun:
		return s.batch(ctx, m)
	case wire.KindSave:
		return s.save(ctx, m)
	}
	return fmt.Errorf("%w: unexpected %s (kind %d)", errProtocol, wire.KindName(m.Kind), m.Kind)
}

// addSegment maps a segment of the client.
func (s *session) addSegment(m *ipc.Message) error {
	var seg wire.Segment
	if err := wire.ParseSegment(m.Body, &seg); err != nil {
		return fmt.Errorf("%w: %w", errProtocol, err)
	}
	if seg.Memory != wire.MemoryHost || len(m.Files) != 1 || seg.Bytes > shm.MaxSegment {
		return fmt.Errorf("%w: segment %016x of %d bytes, memory %d, with %d descriptors; expected host memory with one",
			errProtocol, seg.ID, seg.Bytes, seg.Memory, len(m.Files))
	}
	f := m.Files[0]
	m.Files = nil // the table's
	if err := s.w.table.Add(s.id, seg.ID, f, int64(seg.Bytes)); err != nil {
		return fmt.Errorf("%w: segment %016x: %w", errProtocol, seg.ID, err)
	}
	return nil
}

// addProgram takes a program, or a part of one.
func (s *session) addProgram(m *ipc.Message) error {
	var body wire.Body
	err := wire.ParseBody(m.Body, &body)
	if err != nil {
		return fmt.Errorf("%w: %w", errProtocol, err)
	}
	encoded, err := s.assembler.Add(&body)
	if err != nil {
		return fmt.Errorf("%w: %w", errProtocol, err)
	}
	if encoded == nil {
		return nil
	}
	// A copy, before anything is believed: the bytes lie in a queue.
	encoded = append([]byte(nil), encoded...)
	hash := tensor.Hash(body.Hash)
	if is := tensor.HashOf(encoded); is != hash {
		return fmt.Errorf("%w: program %v came as %v", errProtocol, is, hash)
	}
	if _, ok := s.programs[hash]; ok {
		return nil
	}
	if len(s.programs) >= maxPrograms || s.bytes+len(encoded) > maxProgramBytes {
		return fmt.Errorf("%w: %d programs of %d bytes, at most %d of %d", errProtocol,
			len(s.programs)+1, s.bytes+len(encoded), maxPrograms, maxProgramBytes)
	}
	p := &program{bytes: len(encoded)}
	if s.shared != nil {
		p.parsed, p.err = tensor.ParseProgram(encoded)
		p.plans = map[string]*carried{}
	} else {
		p.Program, p.err = s.w.dev.Compile(hash, encoded)
	}
	s.programs[hash] = p
	s.bytes += len(encoded)
	s.w.stats.programs.Add(1)
	return nil
}

func (s *session) forget(hash tensor.Hash) {
	if p, ok := s.programs[hash]; ok {
		s.w.watch.forgotten(p)
		delete(s.programs, hash)
		s.bytes -= p.bytes
	}
}

// announce tells the client of the segment that h is in, unless it has it or could not map it.
func (s *session) announce(ctx context.Context, h wire.Handle) error {
	if _, ok := s.announced[h.Segment]; ok || s.link != nil {
		return nil
	}
	seg, err := s.w.dev.Arena().Segment(h.Segment)
	if err != nil {
		return fmt.Errorf("%w: result in %w", errInternal, err)
	}
	m := wire.Segment{Session: s.id, ID: seg.ID(), Bytes: uint64(seg.Size()), Memory: wire.MemoryHost}
	if err := s.send(ctx, wire.KindSegment, m.Size(), func(dst []byte) []byte { return wire.AppendSegment(dst, &m) }, seg.File()); err != nil {
		return err
	}
	s.announced[h.Segment] = struct{}{}
	return nil
}

// giveBack notes that an upload's memory is not needed any more.
func (s *session) giveBack(h wire.Handle) {
	s.returned = append(s.returned, h)
	s.returnedB += int(h.Len)
}
