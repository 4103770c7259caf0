package cluster_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/shm/limits/limitstest"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster/client"
	"github.com/ringside-go/ringside/tensor/cpu"
)

var (
	chaosKills = flag.Int("chaos.kills", 40, "how many processes TestChaos kills")
	chaosSeed  = flag.Uint64("chaos.seed", 0, "seed of TestChaos; 0: the time")
)

const (
	chaosWorkers = 2
	chaosClients = 2 // in processes of their own, which are killed
	chaosHere    = 2 // in this process, which look on
	chaosSteps   = 100

	// hang is how long one of the lookers-on may be without a step, while everything
	// around it dies and comes back, before that counts as a hang.
	hang = 20 * time.Second
)

// TestChaos kills dispatcher, workers and clients at random while all of them are at
// work. Clients in this process look on: each of their losses is the right one to the
// bit, or their session ends with an error that names the process that is gone, and the
// next begins. Afterwards nothing is left: no memory, descriptor, goroutine, mapping or
// process.
func TestChaos(t *testing.T) {
	before := holds(t)
	c := &chaos{T: t, shm: limitstest.Tmpfs(t, os.Getenv, "512m"), sockets: socketDir(t), errors: map[string]int{}, kills: map[string]int{}}
	c.addr = filepath.Join(c.sockets, "d")
	seed := *chaosSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("seed %d", seed)
	c.r = rand.New(rand.NewPCG(seed, 0))
	c.reference()
	c.ctx, c.cancel = context.WithCancel(context.Background())
	defer c.cancel()

	c.employ("dispatcher", "dispatcher", "--listen", c.addr)
	for i := range chaosWorkers {
		c.employ("worker", "worker", "--connect", c.addr, "--name", fmt.Sprintf("w%d", i), c.shm)
	}
	for range chaosClients {
		c.employ("client", "client", c.addr, c.shm)
	}
	for range chaosHere {
		steps := new(atomic.Int64)
		c.steps = append(c.steps, steps)
		c.running.Go(func() { c.lookOn(steps) })
	}
	for i := 0; i < *chaosKills && !c.hung; i++ {
		c.watch()
		<-time.After(time.Duration(c.r.IntN(20_000)) * time.Microsecond)
		c.kill()
	}
	c.watch()
	c.quiet()
	c.cancel()
	c.running.Wait()

	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	left := used(t, c.shm)
	for left > 0 && ctx.Err() == nil { // the kernel frees in its own time
		runtime.Gosched()
		left = used(t, c.shm)
	}
	after := holds(t)
	for i := 0; i < 200 && !before.has(after); i++ {
		runtime.GC()
		after = holds(t)
	}
	t.Logf("%d kills: %v", *chaosKills, list(c.kills))
	t.Logf("errors by kind: %v", list(c.errors))
	t.Logf("%d steps of clients that looked on, in %d sessions", c.right.Load(), c.sessions.Load())
	t.Logf("leaked bytes of shared memory: %d", left*4096)
	t.Logf("leaked descriptors: %d (dispatcher: %d)", max(0, after.files-before.files), c.leaked)
	t.Logf("leaked goroutines: %d", max(0, after.goroutines-before.goroutines))
	t.Logf("leaked mappings: %d", max(0, after.mappings-before.mappings))
	hangs := 0
	if c.hung {
		hangs = 1
	}
	t.Logf("hangs: %d", hangs)
	if left > 0 || !before.has(after) || c.leaked > 0 {
		t.Errorf("something is left: %d blocks; %+v, %+v before", left, after, before)
	}
	if c.right.Load() == 0 || c.sessions.Load() < 2 {
		t.Error("those who looked on saw nothing")
	}
}

// chaos is the state of TestChaos.
type chaos struct {
	*testing.T
	r             *rand.Rand
	shm, sockets  string
	addr          string
	losses        []float64 // what the steps of a session must give
	ctx           context.Context
	cancel        context.CancelFunc
	calm          atomic.Bool // no process is started again
	running       sync.WaitGroup
	posts         []*post
	steps         []*atomic.Int64 // of each that looks on
	right         atomic.Int64    // steps
	sessions      atomic.Int64
	hung          bool
	proper        int // descriptors of a new dispatcher that was asked for its status
	leaked        int // what the last one has beyond that
	mu            sync.Mutex
	errors, kills map[string]int
}

// post is a place that is always filled by some process, until calm.
type post struct {
	role string
	pid  atomic.Int64 // 0: no process at the moment
}

// reference computes the losses without a cluster.
func (c *chaos) reference() {
	s, err := cpu.NewSession(nil, nil)
	if err != nil {
		c.Fatal(err)
	}
	defer s.Close()
	if c.losses, err = newModel(s).train(chaosSteps); err != nil {
		c.Fatal(err)
	}
}

// employ keeps a child of that role running.
func (c *chaos) employ(role string, args ...string) {
	p := &post{role: role}
	c.posts = append(c.posts, p)
	filled := make(chan struct{})
	c.running.Go(func() {
		// The death of the thread that forked would end the child.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		for first := true; c.ctx.Err() == nil && !c.calm.Load(); first = false {
			var said bytes.Buffer
			cmd := exec.Command(os.Args[0], append([]string{childArg()}, args...)...)
			cmd.Stderr = &said
			cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
			if err := cmd.Start(); err != nil {
				c.Error(err)
				return
			}
			p.pid.Store(int64(cmd.Process.Pid))
			if first {
				close(filled)
			}
			stop := context.AfterFunc(c.ctx, func() { _ = cmd.Process.Kill() })
			err := cmd.Wait()
			stop()
			p.pid.Store(0)
			if words := strings.TrimSpace(said.String()); words != "" && c.ctx.Err() == nil {
				c.note(role, fmt.Errorf("%s", words))
			} else if err == nil {
				c.Errorf("a %s ended well", role)
			}
			if role != "dispatcher" && strings.Contains(said.String(), "no process listens") {
				<-time.After(10 * time.Millisecond)
			}
		}
	})
	<-filled
	if role != "dispatcher" {
		return
	}
	ctx, cancel := context.WithTimeout(c.ctx, hang)
	defer cancel()
	for { // the others would only be refused
		m, err := client.NewMonitor(ctx, nil, c.addr)
		if err == nil {
			if _, err = m.Status(ctx); err != nil {
				c.Error(err)
			}
			c.proper = c.files(p)
			m.Close()
			return
		}
		if !errors.Is(err, ipc.ErrNoListener) {
			c.Fatal(err)
		}
	}
}

// note counts an error, and complains of an unexpected one.
func (c *chaos) note(who string, err error) {
	kind := ""
	for _, k := range []string{"it closed its connection or died", "is stopping", "no worker is connected", "no process listens",
		"peer gone", "name taken"} {
		if strings.Contains(err.Error(), k) {
			kind = who + ": " + k
			break
		}
	}
	if kind == "" {
		kind = who + ": other"
		c.Errorf("%s: %v", who, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.errors[kind]++
}

// lookOn trains again and again, and checks every loss.
func (c *chaos) lookOn(steps *atomic.Int64) {
	for c.ctx.Err() == nil && !c.calm.Load() {
		err := c.look(steps)
		switch {
		case err == nil || c.ctx.Err() != nil:
			continue
		case errors.Is(err, ipc.ErrNoListener):
			<-time.After(5 * time.Millisecond)
		case !errors.Is(err, client.ErrLost) && !errors.Is(err, ipc.ErrPeerGone):
			c.Errorf("looking on: %v", err)
		}
		c.note("looker-on", err)
	}
}

func (c *chaos) look(steps *atomic.Int64) error {
	e, err := client.Dial(c.ctx, c.addr, &client.Options{Name: "looker-on", Segment: segments(c.shm)})
	if err != nil {
		return err
	}
	defer e.Close()
	c.sessions.Add(1)
	s := tensor.NewSession(e, &tensor.SessionOptions{Context: c.ctx})
	m := newModel(s)
	for i, want := range c.losses {
		loss := m.step(i)
		got, err := loss.Item()
		if err != nil {
			return err
		}
		loss.Free()
		if got != want {
			return fmt.Errorf("step %d: loss %v, expected %v", i, got, want)
		}
		steps.Add(1)
		c.right.Add(1)
	}
	return nil
}

// kill kills a process: workers and clients often, the dispatcher, with which all end,
// now and then.
func (c *chaos) kill() {
	role := "worker"
	switch n := c.r.IntN(10); {
	case n == 0:
		role = "dispatcher"
	case n < 5:
		role = "client"
	}
	var of []*post
	for _, p := range c.posts {
		if p.role == role {
			of = append(of, p)
		}
	}
	p := of[c.r.IntN(len(of))]
	until := time.Now().Add(hang)
	for time.Now().Before(until) {
		// It may be on its way to its own end; then another has the post soon.
		if pid := int(p.pid.Load()); pid != 0 && syscall.Kill(pid, syscall.SIGKILL) == nil {
			c.kills[role]++
			return
		}
		runtime.Gosched()
	}
	c.hung = true
	c.Errorf("nobody fills the post of a %s", role)
}

// watch waits until every trainer has taken a step from now on, and complains of one that
// takes none for long.
func (c *chaos) watch() {
	was := make([]int64, len(c.steps))
	for i := range was {
		was[i] = c.steps[i].Load()
	}
	limit := time.NewTimer(hang)
	defer limit.Stop()
	tick := time.NewTicker(500 * time.Microsecond)
	defer tick.Stop()
	all := c.r.IntN(8) == 0 // now and then all
	for {
		n := 0
		for i := range was {
			if c.steps[i].Load() > was[i] {
				n++
			}
		}
		if n == len(was) || n > 0 && !all {
			return
		}
		select {
		case <-tick.C:
		case <-limit.C:
			c.hung = true
			buf := make([]byte, 1<<20)
			c.Errorf("%d of %d took a step within %v\n%s", n, len(was), hang, buf[:runtime.Stack(buf, true)])
			return
		}
	}
}

// quiet lets all sessions and workers end, and compares what the dispatcher then holds
// with a new one.
func (c *chaos) quiet() {
	var d *post
	for _, p := range c.posts {
		if p.role == "dispatcher" {
			d = p
		}
	}
	ctx, cancel := context.WithTimeout(c.ctx, hang)
	defer cancel()
	m, err := client.NewMonitor(ctx, nil, c.addr)
	// the last one that was killed may have been the dispatcher: the next is on its way
	for err != nil && ctx.Err() == nil {
		runtime.Gosched()
		m, err = client.NewMonitor(ctx, nil, c.addr)
	}
	c.calm.Store(true)
	if err != nil {
		c.Errorf("the last dispatcher: %v", err)
		return
	}
	defer m.Close()
	for {
		for _, p := range c.posts {
			if pid := int(p.pid.Load()); p != d && pid != 0 {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
		s, err := m.Status(ctx)
		if err != nil {
			c.Errorf("the last dispatcher: %v", err)
			return
		}
		if s.Get("clients")+s.Get("workers")+s.Get("sessions") == 0 {
			break
		}
	}
	for c.leaked = 1; c.leaked > 0 && ctx.Err() == nil; runtime.Gosched() {
		c.leaked = max(0, c.files(d)-c.proper)
	}
}

// files is how many descriptors the process at a post has.
func (c *chaos) files(p *post) int {
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.pid.Load()))
	if err != nil {
		c.Error(err)
	}
	return len(fds)
}

// holdings are what this process has.
type holdings struct{ files, goroutines, mappings int }

func holds(t *testing.T) holdings {
	t.Helper()
	// Before the descriptors: the first file that a process opens brings two that the
	// runtime waits with and keeps.
	f, err := os.Open("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	h := holdings{files: len(fds), goroutines: runtime.NumGoroutine()}
	for sc := bufio.NewScanner(f); sc.Scan(); {
		if strings.Contains(sc.Text(), "memfd:ringside") || strings.HasSuffix(sc.Text(), "(deleted)") {
			h.mappings++
		}
	}
	return h
}

func (h holdings) has(x holdings) bool {
	return x.files <= h.files && x.goroutines <= h.goroutines && x.mappings <= h.mappings
}

func list(m map[string]int) string {
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(m)) {
		fmt.Fprintf(&b, "%d %s; ", m[k], k)
	}
	return strings.TrimSuffix(b.String(), "; ")
}
