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
	"github.com/ringside-go/ringside/tensor/cluster/metrics"
	"github.com/ringside-go/ringside/tensor/device"
	"github.com/ringside-go/ringside/tensor/shard"
)

const (
	// stepTimeout bounds how long a worker waits for another in a collective. It is more
	// than programs of other sessions take that the other worker may have to run first. A
	// worker that died is noticed by those that wait in a call with it.
	stepTimeout = 5 * time.Minute

	// maxMeets bounds the Meet messages that arrive before they are needed: some rounds
	// of the largest mesh.
	maxMeets = 8 * shard.MaxRanks
)

// team is the workers that run one session together, as one of them sees it: their ranks,
// stages and meshes, and the groups in which they compute. There is a group for every dim
// of a worker's mesh, over connections of its own. A session of several stages has more
// groups between these: see stages.go.
//
// A goroutine makes the groups while the worker goes on with other sessions, and then
// answers the client. Addresses travel in Meet messages through the dispatcher. Nothing
// of the session runs before all workers have answered.
type team struct {
	worker  *env
	session uint64

	topology

	// Written before ready is closed.
	groups []*collective.Group          // by dim of mesh; nil for dims of one rank
	near   []nearness                   // by dim of mesh
	all    *collective.Group            // of all workers; nil if there is one stage
	pipes  map[[2]int]*collective.Group // between stages, by sender and receiver
	links  map[[2]int]*link             // by sender and receiver, too

	cancel context.CancelFunc
	ready  chan struct{} // closed when groups stand, before the client is told
	joined chan struct{} // closed when join's goroutine ends; nil before join

	mu    sync.Mutex
	meets map[meetKey]meetData // Meet messages that were not needed yet
	news  chan struct{}        // one slot: meets has more
}

// meetKey names a Meet message.
type meetKey struct{ rank, group, round uint32 }

// meetData is the content of a Meet message.
type meetData struct {
	data []byte
	file *os.File // a connection that is offered to the first worker, or nil
}

func newTeam(e *env, session uint64, stages []shard.Stage, rank int) *team {
	t := &team{worker: e, session: session, topology: newTopology(stages, rank), pipes: map[[2]int]*collective.Group{},
		links: map[[2]int]*link{}, ready: make(chan struct{}), meets: map[meetKey]meetData{}, news: make(chan struct{}, 1)}
	t.groups, t.near = make([]*collective.Group, len(t.mesh)), make([]nearness, len(t.mesh))
	return t
}

// join makes the groups in a goroutine. It then calls opened, which returns the
// descriptors for the client, and sends reply to the client. An error fails the session
// for all of its workers.
func (t *team) join(key []byte, memory clientMemory, reply wire.SessionOpened, opened func(ctx context.Context, err error) []*os.File) {
	parent, over := context.WithCancelCause(context.Background())
	ctx, cancel := context.WithTimeoutCause(parent, joinTimeout,
		fmt.Errorf("the session's workers did not connect to each other within %v", joinTimeout))
	t.cancel, t.joined = func() { over(errSessionOver) }, make(chan struct{})
	log := t.worker.log.With("session", t.session, "rank", t.rank)
	go func() {
		defer close(t.joined)
		defer cancel()
		err := t.connect(ctx, key, log)
		if err == nil {
			err = memory.wait(ctx)
		}
		files := opened(ctx, err)
		if err == nil {
			close(t.ready)
			err = t.worker.out.post(wire.KindSessionOpened, &reply, files...)
		}
		if err == nil || errors.Is(context.Cause(ctx), errSessionOver) {
			return
		}
		log.Warn("no group with the session's other workers", "err", err)
		m := wire.Fail{Session: t.session, Code: wire.CodeInternal, Text: wire.CutText(fmt.Sprintf("worker %q, rank %d: %v", t.worker.name, t.rank, err))}
		_ = t.worker.out.post(wire.KindFail, &m)
	}()
}

// connect makes the groups, one after another. All workers make them in the same order,
// and the pipes of the pair with the lowest ranks first, so that no two wait for each
// other in different groups.
func (t *team) connect(ctx context.Context, key []byte, log *slog.Logger) (err error) {
	for k, d := range t.mesh {
		if d.Size == 1 {
			continue
		}
		if t.groups[k], err = t.connectGroup(ctx, key, k, t.along(k), log); err != nil {
			return err
		}
		if err := t.sameRounding(ctx, t.groups[k]); err != nil {
			return err
		}
		if t.near[k], err = t.connectPeers(ctx, t.groups[k]); err != nil {
			return err
		}
	}
	if len(t.stages) == 1 {
		return nil
	}
	all := make([]int, t.size())
	for r := range all {
		all[r] = r
	}
	if t.all, err = t.connectGroup(ctx, key, groupAll, all, log); err != nil {
		return err
	}
	for _, pair := range t.pairs() {
		if t.pipes[pair], err = t.connectGroup(ctx, key, t.pipeNumber(pair), pair[:], log); err != nil {
			return err
		}
		if t.links[pair], err = t.connectLink(ctx, t.pipes[pair]); err != nil {
			return err
		}
	}
	return nil
}

// connectGroup makes one group, of the workers with these ranks.
func (t *team) connectGroup(ctx context.Context, key []byte, number int, ranks []int, log *slog.Logger) (*collective.Group, error) {
	place := slices.Index(ranks, t.rank)
	waiter, err := local.NewWaiter()
	if err != nil {
		return nil, err
	}
	members, err := route.Mesh(ctx, route.MeshOptions{Rank: place, Size: len(ranks), Name: t.worker.name, Secret: key, TLS: t.worker.tls,
		Waiter: waiter, Logger: log, Exchange: t.exchange(number, ranks)})
	if err != nil {
		return nil, err
	}
	// The group logs nothing: its failure is that of the session.
	return collective.New(ctx, place, members, &collective.Options{Timeout: stepTimeout, Waiter: waiter, Flight: t.worker.flight})
}

// voters returns the groups in which the session's workers agree, one after another: the
// one of all workers, or those along each dim of their mesh.
func (t *team) voters() []*collective.Group {
	if t.all != nil {
		return []*collective.Group{t.all}
	}
	return slices.DeleteFunc(slices.Clone(t.groups), func(g *collective.Group) bool { return g == nil })
}

// paths returns how this worker reaches the ranks with which it has a group. All workers
// are connected.
func (t *team) paths() map[int]metrics.Reach {
	out := map[int]metrics.Reach{}
	see := func(g *collective.Group, ranks []int, n nearness) {
		if g == nil {
			return
		}
		for _, host := range g.Hosts() {
			reach := metrics.Reach{Shared: slices.Contains(host, g.Rank()), Near: n.peers != nil}
			if t.worker.dev.Info().Kind != device.CPU {
				reach.Obstacle = n.obstacle
			}
			for _, place := range host {
				if r := ranks[place]; r != t.rank {
					out[r] = reach
				}
			}
		}
	}
	for k, g := range t.groups {
		see(g, t.along(k), t.near[k])
	}
	if t.all == nil {
		return out
	}
	for r := range t.size() {
		if _, ok := out[r]; !ok && r != t.rank {
			shared := slices.ContainsFunc(t.all.Hosts(), func(h []int) bool { return slices.Contains(h, r) && slices.Contains(h, t.rank) })
			out[r] = t.linked(r, metrics.Reach{Shared: shared})
		}
	}
	return out
}

// linked adds to reach how the devices of this worker and of one of another stage send
// values to each other.
func (t *team) linked(rank int, reach metrics.Reach) metrics.Reach {
	obstacle, between := device.None, false
	for _, pair := range [][2]int{{t.rank, rank}, {rank, t.rank}} {
		if l := t.links[pair]; l != nil {
			obstacle, between = max(obstacle, l.obstacle), true
		}
	}
	if !between {
		obstacle = device.Stages
	}
	if reach.Near = obstacle == device.None; t.worker.dev.Info().Kind != device.CPU {
		reach.Obstacle = obstacle
	}
	return reach
}

// along returns the ranks of this worker's group along a dim of its mesh.
func (t *team) along(dim int) []int {
	ranks := t.mesh.Group(t.place, dim)
	for i, r := range ranks {
		ranks[i] = t.stages[t.stage].Ranks[r]
	}
	return ranks
}

// open reports whether all workers of the session are connected.
func (t *team) open() bool {
	select {
	case <-t.ready:
		return true
	default:
		return false
	}
}

// exchange returns a function that gives each of ranks the data of all of them, in their
// order.
func (t *team) exchange(group int, ranks []int) func(context.Context, []byte) ([][]byte, error) {
	m := wire.Meet{Session: t.session, Rank: uint32(t.rank), Group: uint32(group)}
	return func(ctx context.Context, mine []byte) ([][]byte, error) {
		m.Data = mine
		if len(mine) > wire.MaxMeet {
			return nil, fmt.Errorf("%d bytes for the other workers, at most %d", len(mine), wire.MaxMeet)
		}
		if err := t.worker.out.post(wire.KindMeet, &m); err != nil {
			return nil, err
		}
		all := make([][]byte, len(ranks))
		for i, r := range ranks {
			if all[i] = mine; r == t.rank {
				continue
			}
			got, err := t.await(ctx, meetKey{uint32(r), m.Group, m.Round})
			if err != nil {
				return nil, fmt.Errorf("rank %d: %w", r, err)
			}
			all[i] = got.data
		}
		m.Round++
		return all, nil
	}
}

// await waits for a Meet message.
func (t *team) await(ctx context.Context, key meetKey) (meetData, error) {
	for {
		t.mu.Lock()
		got, ok := t.meets[key]
		delete(t.meets, key)
		t.mu.Unlock()
		if ok {
			return got, nil
		}
		select {
		case <-t.news:
		case <-ctx.Done():
			return meetData{}, ipc.ContextError(ctx)
		}
	}
}

// meet receives a Meet message of another worker.
func (t *team) meet(msg *ipc.Message) error {
	var m wire.Meet
	if err := wire.Parse(msg.Body, &m); err != nil {
		return fmt.Errorf("%w: %w", errProtocol, err)
	}
	if !t.concerns(int(m.Rank), int(m.Group)) {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	key := meetKey{m.Rank, m.Group, m.Round}
	_, twice := t.meets[key]
	switch {
	case int(m.Rank) >= t.size() || int(m.Rank) == t.rank:
		return fmt.Errorf("%w: Meet of rank %d of %d, to rank %d", errProtocol, m.Rank, t.size(), t.rank)
	case twice:
		return fmt.Errorf("%w: Meet of rank %d in round %d of group %d, sent twice", errProtocol, m.Rank, m.Round, m.Group)
	case len(t.meets) >= maxMeets:
		return fmt.Errorf("%w: Meet of rank %d after %d that were not needed yet", errProtocol, m.Rank, len(t.meets))
	}
	got := meetData{data: append([]byte{}, m.Data...)}
	if len(msg.Files) > 0 {
		got.file = msg.Files[0]
		msg.Files = msg.Files[1:]
	}
	t.meets[key] = got
	select {
	case t.news <- struct{}{}:
	default:
	}
	return nil
}

// close leaves the groups, in a goroutine: it waits until the other workers leave as
// well, for a second at most. It first closes conns, the connections to the other
// workers.
func (t *team) close(conns func() []localConn) {
	if t.joined == nil {
		return
	}
	t.cancel()
	t.worker.closing.Go(func() {
		<-t.joined
		for _, c := range conns() {
			_ = c.Close()
		}
		t.mu.Lock()
		for _, m := range t.meets {
			if m.file != nil {
				ipc.CloseFiles([]*os.File{m.file})
			}
		}
		t.mu.Unlock()
		t.closePeers()
		var left sync.WaitGroup
		for _, g := range slices.AppendSeq(append(slices.Clone(t.groups), t.all), maps.Values(t.pipes)) {
			if g != nil {
				left.Go(func() { _ = g.Close() })
			}
		}
		left.Wait()
	})
}
