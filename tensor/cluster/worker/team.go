package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/ringside-go/ringside/collective"
	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/local"
	"github.com/ringside-go/ringside/net/route"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
	"github.com/ringside-go/ringside/tensor/shard"
)

const (
	// joinTimeout bounds the time in which the workers of a session connect with each other.
	joinTimeout = 30 * time.Second

	// stepTimeout bounds how long one of them waits for another in a collective: longer than the programs of other sessions
	// that the other may have to run before. One that died is noticed at once.
	stepTimeout = 5 * time.Minute
)

// team is the workers that run one session together, as one of them sees it. They make a group for every dim of their mesh, over
// conns of their own; the addresses travel in Meet messages, through the dispatcher. Where there are several stages, each with a mesh,
// they make some between them besides: see stages.go.
//
// A goroutine makes the groups while the worker goes on with other sessions, and then answers the client. Nothing of
// the session is run before all workers have answered.
type team struct {
	rank   int           // among the session's workers
	stages []shard.Stage // of these
	stage  int           // the one that this worker is in,
	mesh   shard.Mesh    // its mesh,
	place  int           // and this worker's rank in that

	// Written before ready is closed.
	groups []*collective.Group          // by dim of mesh; nil for dims of one rank
	all    *collective.Group            // of all workers; nil if there is one stage
	pipes  map[[2]int]*collective.Group // between stages, by who sends and who receives, this worker being one of them

	cancel context.CancelFunc
	ready  chan struct{} // closed when groups stand, before the client is told
	joined chan struct{} // closed when join is over

	mu   sync.Mutex
	said map[meeting]saying // what others said that was not needed yet
	news chan struct{}      // one slot: said has more
}

// meeting is when somebody says something.
type meeting struct{ rank, group, round uint32 }

// saying is what somebody says.
type saying struct {
	data []byte
	file *os.File // a conn that is offered to the first worker, or nil
}

func newTeam(stages []shard.Stage, rank int) *team {
	t := &team{rank: rank, stages: stages, pipes: map[[2]int]*collective.Group{}, ready: make(chan struct{}), joined: make(chan struct{}),
		said: map[meeting]saying{}, news: make(chan struct{}, 1)}
	for k, st := range stages {
		if i := slices.Index(st.Ranks, rank); i >= 0 {
			t.stage, t.mesh, t.place = k, st.Mesh, i
		}
	}
	t.groups = make([]*collective.Group, len(t.mesh))
	return t
}

// size is how many workers the session has.
func (t *team) size() (n int) {
	for _, st := range t.stages {
		n += len(st.Ranks)
	}
	return n
}

// join makes the groups and answers the client, in a goroutine of its own. An error fails the session for all of its workers. theirs is the
// client's end of the session's own conn, nil if it has none.
func (t *team) join(w *Worker, s *session, key []byte, opened wire.SessionOpened, theirs *os.File) {
	parent, over := context.WithCancelCause(context.Background())
	ctx, cancel := context.WithTimeoutCause(parent, joinTimeout,
		fmt.Errorf("the session's workers did not connect with each other within %v", joinTimeout))
	t.cancel = func() { over(errSessionOver) }
	id, link, lead, log := s.id, s.link, &s.lead, w.log.With("session", s.id, "rank", t.rank)
	go func() {
		defer close(t.joined)
		defer cancel()
		err := t.connect(ctx, w, id, key, log)
		if err == nil && link != nil {
			err = link.wait(ctx)
		}
		var files []*os.File
		if theirs != nil && err == nil {
			var failed error
			if lead.others, failed = t.takeOthers(ctx, w); failed == nil {
				files = append(files, theirs)
			} else {
				log.Warn("no conns of its own for a session: it goes through the dispatcher", "err", failed)
			}
		}
		if theirs != nil && files == nil {
			theirs.Close()
		}
		if err == nil {
			close(t.ready)
			err = w.say(wire.KindSessionOpened, opened.Size(), func(dst []byte) []byte { return wire.AppendSessionOpened(dst, &opened) }, files...)
		}
		if err == nil || errors.Is(context.Cause(ctx), errSessionOver) {
			return
		}
		log.Warn("no group with the session's other workers", "err", err)
		m := wire.Fail{Session: id, Code: wire.CodeInternal, Text: wire.CutText(fmt.Sprintf("worker %q, rank %d: %v", w.o.Name, t.rank, err))}
		_ = w.say(wire.KindFail, m.Size(), func(dst []byte) []byte { return wire.AppendFail(dst, &m) })
	}()
}

// errSessionOver ends a join whose session ended meanwhile.
var errSessionOver = errors.New("the session is over")

// connect makes the groups, one after another. Groups have one order that is the same for all workers, so that none waits for another
// that waits for it in another group.
func (t *team) connect(ctx context.Context, w *Worker, session uint64, key []byte, log *slog.Logger) error {
	group := func(number int, ranks []int) (*collective.Group, error) {
		place := slices.Index(ranks, t.rank)
		waiter, err := local.NewWaiter()
		if err != nil {
			return nil, err
		}
		members, err := route.Mesh(ctx, route.MeshOptions{Rank: place, Size: len(ranks), Name: w.o.Name, Secret: key, Waiter: waiter, Logger: log,
			Exchange: t.exchange(w, session, number, ranks)})
		if err != nil {
			return nil, err
		}
		return collective.New(ctx, place, members, &collective.Options{Timeout: stepTimeout, Waiter: waiter}) // how it fails the session says
	}
	for k, d := range t.mesh {
		if d.Size == 1 {
			continue
		}
		ranks := t.mesh.Group(t.place, k)
		for i, r := range ranks {
			ranks[i] = t.stages[t.stage].Ranks[r]
		}
		var err error
		if t.groups[k], err = group(k, ranks); err != nil {
			return err
		}
	}
	if len(t.stages) == 1 {
		return nil
	}
	return t.connectStages(group)
}

// exchange gives every one of ranks what each of them gave, by their order.
func (t *team) exchange(w *Worker, session uint64, group int, ranks []int) func(context.Context, []byte) ([][]byte, error) {
	m := wire.Meet{Session: session, Rank: uint32(t.rank), Group: uint32(group)}
	return func(ctx context.Context, mine []byte) ([][]byte, error) {
		m.Data = mine
		if len(mine) > wire.MaxMeet {
			return nil, fmt.Errorf("%d bytes for the others, at most %d", len(mine), wire.MaxMeet)
		}
		if err := w.say(wire.KindMeet, m.Size(), func(dst []byte) []byte { return wire.AppendMeet(dst, &m) }); err != nil {
			return nil, err
		}
		all := make([][]byte, len(ranks))
		for i, r := range ranks {
			if all[i] = mine; r == t.rank {
				continue
			}
			said, err := t.listen(ctx, meeting{uint32(r), m.Group, m.Round})
			if err != nil {
				return nil, fmt.Errorf("rank %d: %w", r, err)
			}
			all[i] = said.data
		}
		m.Round++
		return all, nil
	}
}

// listen waits for what a rank says.
func (t *team) listen(ctx context.Context, at meeting) (saying, error) {
	for {
		t.mu.Lock()
		said, ok := t.said[at]
		delete(t.said, at)
		t.mu.Unlock()
		if ok {
			return said, nil
		}
		select {
		case <-t.news:
		case <-ctx.Done():
			return saying{}, ipc.ContextError(ctx)
		}
	}
}

// hear takes in what another worker says.
func (t *team) hear(msg *ipc.Message) error {
	var m wire.Meet
	if err := wire.ParseMeet(msg.Body, &m); err != nil {
		return fmt.Errorf("%w: %w", errProtocol, err)
	}
	if !t.meets(int(m.Rank), int(m.Group)) {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	at := meeting{m.Rank, m.Group, m.Round}
	_, twice := t.said[at]
	switch {
	case int(m.Rank) >= t.size() || int(m.Rank) == t.rank:
		return fmt.Errorf("%w: Meet of rank %d of %d, to rank %d", errProtocol, m.Rank, t.size(), t.rank)
	case twice:
		return fmt.Errorf("%w: Meet of rank %d in round %d of group %d, said twice", errProtocol, m.Rank, m.Round, m.Group)
	case len(t.said) >= maxSaid:
		return fmt.Errorf("%w: Meet of rank %d after %d that nobody has needed yet", errProtocol, m.Rank, len(t.said))
	}
	said := saying{data: append([]byte{}, m.Data...)}
	if len(msg.Files) > 0 {
		said.file = msg.Files[0]
		msg.Files = msg.Files[1:]
	}
	t.said[at] = said
	select {
	case t.news <- struct{}{}:
	default:
	}
	return nil
}

// maxSaid bounds what others may say ahead: some rounds of the largest mesh.
const maxSaid = 8 * shard.MaxRanks

// close leaves the groups. It waits for the others to leave as well, for a second at most: not in the worker's goroutine.
func (t *team) close(over *sync.WaitGroup, lead *lead) {
	t.cancel()
	over.Go(func() {
		<-t.joined
		for _, c := range lead.others {
			_ = c.Close()
		}
		t.mu.Lock()
		for _, said := range t.said {
			if said.file != nil {
				said.file.Close()
			}
		}
		t.mu.Unlock()
		var left sync.WaitGroup
		for _, g := range slices.AppendSeq(append(slices.Clone(t.groups), t.all), maps.Values(t.pipes)) {
			if g != nil {
				left.Go(func() { _ = g.Close() })
			}
		}
		left.Wait()
	})
}

// opened is the answer to the client that wants a session.
func (w *Worker) opened(open *wire.OpenSession) wire.SessionOpened {
	return wire.SessionOpened{Session: open.Session, PID: uint32(os.Getpid()), Apart: open.Apart, Rank: open.Rank, Worker: w.o.Name}
}
