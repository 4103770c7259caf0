package cluster_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/ringside-go/ringside/collective/testsize"
	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/local"
	"github.com/ringside-go/ringside/net/nettest"
	"github.com/ringside-go/ringside/net/tcp"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster/client"
	"github.com/ringside-go/ringside/tensor/cluster/dispatcher"
	"github.com/ringside-go/ringside/tensor/cluster/metrics"
)

var (
	historySeeds = flag.Int("history.seeds", 1, "how many histories TestHistories makes")
	historySeed  = flag.Uint64("history.seed", 0, "seed of the first one; 0: the time")
	historyOps   = flag.Int("history.ops", 0, "operations of each; 0: few")
)

const (
	historyClients = 6
	historyWorkers = 2

	// historyPause is how many operations there are between two disturbances, at most.
	historyPause = 200

	anyPort = "127.0.0.1:0"

	torn = -1 // a value whose elements differ: no program writes it
)

// TestHistories has clients open sessions near and far, of one worker and of two, write
// and read values, and close them, while workers and the dispatcher are killed, links are
// cut, and engines are closed by other goroutines. A linearizability checker then holds
// what they saw to sessionModel.
func TestHistories(t *testing.T) {
	ops := *historyOps
	if ops == 0 {
		ops = 600
		if testsize.Sampled() {
			ops = 250
		}
	}
	first := *historySeed
	if first == 0 {
		first = uint64(time.Now().UnixNano())
	}
	right := 0
	for i := range uint64(*historySeeds) {
		if t.Run(fmt.Sprint("seed=", first+i), func(t *testing.T) { runHistory(t, first+i, ops) }) {
			right++
		}
	}
	t.Logf("%d histories of %d operations: %d are possible, %d are not", *historySeeds, ops, right, *historySeeds-right)
}

// childLinked is a dispatcher of this host and of others. It writes the address for
// others to a file.
func childLinked(ctx context.Context, args []string) error { // ADDR FILE HOST:PORT
	d, err := dispatcher.New(&dispatcher.Options{Secret: []byte(farSecret)})
	if err != nil {
		return err
	}
	far, err := tcp.New().Listen(args[2], d.ListenOptions())
	if err != nil {
		return err
	}
	if err := os.WriteFile(args[1]+".new", []byte(far.Addr()), 0o600); err != nil {
		return err
	}
	if err := os.Rename(args[1]+".new", args[1]); err != nil {
		return err
	}
	near, err := local.New().Listen(args[0], d.ListenOptions())
	if err != nil {
		return err
	}
	return d.Serve(ctx, near, far)
}

// history is one run of TestHistories.
type history struct {
	*chaos
	began time.Time
	far   string // the file with the dispatcher's address for other hosts

	left    atomic.Int64 // operations to come
	writes  atomic.Int64 // every value is written once
	refused atomic.Int64 // sessions that were not opened

	mu       sync.Mutex
	ops      []porcupine.Operation
	sessions []*historySession // all
	deaths   []death
	done     map[string]int // disturbances
}

// death is a process that was killed, and when.
type death struct {
	role      string
	pid       int
	call, end int64
}

// historySession is a session in a history.
type historySession struct {
	id      int
	link    *nettest.Through // of a far one
	e       *client.Engine
	pids    []int // of its workers
	opened  [2]int64
	last    int64       // the end of its last act
	holding atomic.Bool // it is open as far as its client knows
}

func runHistory(t *testing.T, seed uint64, ops int) {
	h := &history{chaos: &chaos{T: t, sockets: socketDir(t), errors: map[string]int{}, kills: map[string]int{}},
		began: time.Now(), far: filepath.Join(t.TempDir(), "far"), done: map[string]int{}}
	h.addr = filepath.Join(h.sockets, "d")
	h.ctx, h.cancel = context.WithCancel(context.Background())
	defer func() {
		h.calm.Store(true)
		h.cancel()
		h.running.Wait()
	}()
	h.left.Store(int64(ops))
	h.employ("dispatcher", "linked", h.addr, h.far, anyPort)
	for i := range historyWorkers {
		h.employ("worker", "worker", "--connect", h.addr, "--name", fmt.Sprint("w", i), "")
	}
	var clients sync.WaitGroup
	for i := range historyClients {
		clients.Go(func() { h.client(i, rand.New(rand.NewPCG(seed, uint64(i)))) })
	}
	h.disturb(rand.New(rand.NewPCG(seed, historyClients)))
	clients.Wait()
	h.forgotten()

	all := h.all()
	result, info := porcupine.CheckOperationsVerbose(sessionModel, all, time.Minute)
	outcomes := map[string]int{}
	for _, op := range h.ops {
		outcomes[string(op.Output.(answer).outcome)]++
	}
	t.Logf("seed %d: %d operations in %d sessions, %d openings refused; %s; answers: %s; the model says %s",
		seed, ops, len(h.sessions), h.refused.Load(), list(h.done), list(outcomes), result)
	if result == porcupine.Ok {
		return
	}
	file := filepath.Join(os.TempDir(), fmt.Sprintf("history-%d.html", seed))
	t.Errorf("the model says %s: %s shows the history, -history.seed %d makes a like one; %v", result, file, seed,
		porcupine.VisualizePath(sessionModel, info, file))
	for _, one := range sessionModel.Partition(all) {
		if !porcupine.CheckOperations(sessionModel, one) {
			slices.SortFunc(one, func(a, b porcupine.Operation) int { return int(a.Call - b.Call) })
			for _, op := range one {
				t.Logf("%d to %d: %+v: %+v", op.Call, op.Return, op.Input, op.Output)
			}
			break
		}
	}
}

func (h *history) now() int64 { return int64(time.Since(h.began)) }

// act adds an act to the history.
func (h *history) act(s *historySession, call int64, a act, got answer) {
	a.session = s.id
	end := h.now()
	h.mu.Lock()
	defer h.mu.Unlock()
	s.last = max(s.last, end)
	h.ops = append(h.ops, porcupine.Operation{Input: a, Output: got, Call: call, Return: end})
}

// client opens sessions and uses them, until there are enough operations.
func (h *history) client(i int, r *rand.Rand) {
	for h.left.Load() > 0 {
		h.left.Add(-1)
		s, err := h.open(r)
		if err != nil {
			h.refused.Add(1)
			if !errors.Is(err, ipc.ErrNoListener) && !errors.Is(err, ipc.ErrPeerGone) && !errors.Is(err, client.ErrLost) {
				h.Errorf("client %d: opening a session: %v", i, err)
			}
			// until the next is there
			<-time.After(2 * time.Millisecond)
			continue
		}
		h.use(s, r)
	}
}

var ofWorker = regexp.MustCompile(`"?w\d+"? \(pid (\d+)\)`)

// open opens a session: far away, of two workers, or, most often, neither.
func (h *history) open(r *rand.Rand) (*historySession, error) {
	s, o, addr := new(historySession), client.Options{Name: "a session"}, h.addr
	switch r.IntN(4) {
	case 0:
		at, err := os.ReadFile(h.far)
		if err != nil {
			return nil, err
		}
		addr = string(at)
		s.link = &nettest.Through{Transport: tcp.New(), T: h.T, Fault: nettest.None}
		o.Transport, o.Secret = s.link, []byte(farSecret)
	case 1:
		o.Workers = 2
	}
	ctx, cancel := context.WithTimeoutCause(h.ctx, patience, errors.New("it hangs"))
	defer cancel()
	call := h.now()
	var err error
	if s.e, err = client.Dial(ctx, addr, &o); err != nil {
		if s.link != nil {
			s.link.Cut()
		}
		return nil, err
	}
	for _, m := range ofWorker.FindAllStringSubmatch(s.e.Name(), -1) {
		pid, _ := strconv.Atoi(m[1])
		s.pids = append(s.pids, pid)
	}
	if len(s.pids) != s.e.Workers() {
		h.Errorf("%q names %d workers, expected %d", s.e.Name(), len(s.pids), s.e.Workers())
	}
	h.mu.Lock()
	s.id = len(h.sessions)
	h.sessions = append(h.sessions, s)
	h.mu.Unlock()
	h.act(s, call, act{kind: actOpen, waits: true}, answer{outcome: fine})
	s.opened = [2]int64{call, s.last}
	s.holding.Store(true)
	return s, nil
}

// use writes and reads values of a session, and closes it. A session that is lost is used
// a little longer.
func (h *history) use(s *historySession, r *rand.Rand) {
	ctx, cancel := context.WithCancelCause(h.ctx)
	defer cancel(nil)
	// It is for one act.
	late := time.AfterFunc(patience, func() { cancel(errors.New("it hangs")) })
	defer late.Stop()
	ts := tensor.NewSession(s.e, &tensor.SessionOptions{Context: ctx})
	// in an answer, in a block, over a socket in pieces
	n := []int{1, 8, 9, 1000, 40_000}[r.IntN(5)]
	var x [registers]*tensor.Tensor
	for i := range x {
		x[i] = tensor.Full(ts, tensor.I64, 0, n)
	}
	over := 0
	for range 5 + r.IntN(60) {
		if h.left.Add(-1) < 0 || over > 2 {
			break
		}
		a := act{reg: r.IntN(registers), from: r.IntN(registers), waits: r.IntN(3) > 0}
		a.kind = []actKind{actWrite, actAdd, actCopy, actRead}[r.IntN(4)]
		switch a.kind {
		case actWrite:
			a.value = 1000 * h.writes.Add(1)
		case actAdd:
			a.value = 1 + r.Int64N(9)
		case actRead:
			a.waits = true
		}
		call := h.now()
		late.Reset(patience)
		value, err := perform(ts, &x, n, a)
		got := answer{fine, value}
		switch {
		case errors.Is(err, tensor.ErrClosed):
			got, over = answer{outcome: wasClosed}, over+1
		case errors.Is(err, client.ErrLost):
			got, over = answer{outcome: lost}, over+1
			if !named.MatchString(err.Error()) {
				h.Errorf("the error names no process: %v", err)
			}
		case err != nil:
			// The act was done or not, so the history of the session ends before it.
			h.Errorf("session %d, %s, %+v: %v", s.id, s.e.Name(), a, err)
			h.leave(s)
			return
		}
		ts.ClearErr()
		h.act(s, call, a, got)
	}
	h.leave(s)
}

// leave closes a session.
func (h *history) leave(s *historySession) {
	s.holding.Store(false)
	h.close(s)
	if s.link != nil {
		s.link.Cut()
	}
}

// named matches errors that say which process is gone.
var named = regexp.MustCompile(`worker "?w\d+"?|dispatcher`)

// perform does an act that is no opening and no closing.
func perform(s *tensor.Session, x *[registers]*tensor.Tensor, n int, a act) (int64, error) {
	var err error
	switch a.kind {
	case actWrite:
		all := make([]int64, n)
		for i := range all {
			all[i] = a.value
		}
		err = x[a.reg].Assign(tensor.From(s, all))
	case actAdd:
		err = x[a.reg].Assign(x[a.reg].AddS(float64(a.value)))
	case actCopy:
		err = x[a.reg].Assign(x[a.from].AddS(0))
	case actRead:
		all, err := tensor.Data[int64](x[a.reg])
		if err != nil {
			return 0, err
		}
		if slices.ContainsFunc(all, func(v int64) bool { return v != all[0] }) {
			return torn, nil
		}
		return all[0], nil
	}
	switch {
	case err != nil:
		return 0, err
	case a.waits:
		return 0, s.Sync()
	}
	return 0, s.Flush()
}

func (h *history) close(s *historySession) {
	call := h.now()
	if err := s.e.Close(); err != nil {
		h.Errorf("closing session %d: %v", s.id, err)
	}
	h.act(s, call, act{kind: actClose}, answer{outcome: fine})
}

// disturb kills processes, cuts links and closes engines, now and then.
func (h *history) disturb(r *rand.Rand) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		next := h.left.Load() - 1 - r.Int64N(historyPause)
		if next <= 0 {
			return
		}
		for end := time.Now().Add(patience); h.left.Load() > next; <-tick.C {
			if time.Now().After(end) {
				h.Errorf("%d operations are left for %v", h.left.Load(), patience)
				return
			}
		}
		what := []string{"worker killed", "worker killed", "dispatcher killed", "link cut", "engine closed"}[r.IntN(5)]
		switch what {
		case "worker killed":
			h.murder(h.posts[1+r.IntN(historyWorkers)])
		case "dispatcher killed":
			h.murder(h.posts[0])
		case "link cut", "engine closed":
			s := h.pick(r, what == "link cut")
			if s == nil {
				continue
			}
			if what == "engine closed" {
				h.close(s)
				break
			}
			call := h.now()
			s.link.Cut()
			h.act(s, call, act{kind: actHarm, ends: true}, answer{outcome: fine})
		}
		h.done[what]++
	}
}

// pick returns one of the open sessions, nil if there is none of that kind.
func (h *history) pick(r *rand.Rand, far bool) *historySession {
	h.mu.Lock()
	defer h.mu.Unlock()
	var of []*historySession
	for _, s := range h.sessions {
		if s.holding.Load() && (!far || s.link != nil) {
			of = append(of, s)
		}
	}
	if of == nil {
		return nil
	}
	return of[r.IntN(len(of))]
}

// murder kills the process at a post, and waits until it is dead.
func (h *history) murder(p *post) {
	pid := int64(0)
	for end := time.Now().Add(patience); pid == 0; pid = p.pid.Load() {
		if time.Now().After(end) {
			h.Errorf("there is no %s for %v", p.role, patience)
			return
		}
		<-time.After(time.Millisecond)
	}
	call := h.now()
	if err := syscall.Kill(int(pid), syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		h.Errorf("killing the %s: %v", p.role, err)
	}
	for p.pid.Load() == pid {
		<-time.After(100 * time.Microsecond)
	}
	h.deaths = append(h.deaths, death{p.role, int(pid), call, h.now()})
}

// all returns the history with the deaths in each session's part of it.
func (h *history) all() []porcupine.Operation {
	all := h.ops
	add := func(s *historySession, d death, a act) {
		a.session, a.kind = s.id, actHarm
		all = append(all, porcupine.Operation{Input: a, Output: answer{outcome: fine}, Call: d.call, Return: d.end})
	}
	for _, s := range h.sessions {
		far, single := s.link != nil, len(s.pids) == 1
		for _, d := range h.deaths {
			switch {
			case d.role == "worker" && slices.Contains(s.pids, d.pid):
				add(s, d, act{hosts: true, ends: single})
			case d.role == "dispatcher" && d.end >= s.opened[0] && d.call <= s.last && (far || !single):
				// its messages may go on between client and worker
				add(s, d, act{ends: far})
			}
		}
	}
	return all
}

// forgotten waits until dispatcher and workers hold nothing of the sessions.
func (h *history) forgotten() {
	ctx, cancel := context.WithTimeoutCause(h.ctx, patience, errors.New("sessions are left"))
	defer cancel()
	for {
		err := func() error {
			m, err := client.NewMonitor(ctx, nil, h.addr)
			if err != nil {
				return err
			}
			defer m.Close()
			s, err := m.Status(ctx)
			if err == nil && (s.Get(metrics.Workers) != historyWorkers || s.Get(metrics.Sessions)+s.Get(metrics.Waiting) > 0) {
				err = fmt.Errorf("%d workers, %d sessions, %d waiting", s.Get(metrics.Workers), s.Get(metrics.Sessions), s.Get(metrics.Waiting))
			}
			for _, name := range metrics.WorkersOf(s) {
				if n := s.Get(metrics.OfWorker(name, metrics.Sessions)); n > 0 {
					err = fmt.Errorf("%d sessions of %s", n, name)
				}
			}
			return err
		}()
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			h.Errorf("when all clients were gone: %v", err)
			return
		}
		<-time.After(time.Millisecond)
	}
}
