package cluster_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/local"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster"
	"github.com/ringside-go/ringside/tensor/cluster/client"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
	"github.com/ringside-go/ringside/tensor/cluster/worker"
	"github.com/ringside-go/ringside/tensor/device"
	"github.com/ringside-go/ringside/tensor/shard/config"
)

// childOwner starts a cluster in DIR with workers of a KIND, prints its processes, and
// waits to be killed.
func childOwner(ctx context.Context, args []string) error {
	c, err := cluster.Start(ctx, &cluster.Options{Workers: 2, Dir: args[0], Args: workersOf(args[1])})
	if err != nil {
		return err
	}
	for _, p := range c.Parts() {
		fmt.Println(p.PID)
	}
	return c.Wait()
}

// childStuck is a worker that does nothing, hears nothing and never ends.
func childStuck(_ context.Context, args []string) error {
	signal.Ignore(syscall.SIGHUP, syscall.SIGTERM, syscall.SIGPIPE)
	c, err := local.New().Dial(context.Background(), args[1], &ipc.Options{Hello: ipc.Peer{Role: ipc.RoleWorker, Name: args[3]}})
	if err != nil {
		return err
	}
	defer c.Close()
	m := wire.Append(nil, &wire.Device{Info: device.Info{Kind: device.CPU}})
	buf, err := c.Reserve(context.Background(), wire.KindDevice, len(m))
	if err != nil {
		return err
	}
	copy(buf, m)
	if err := c.Commit(); err != nil {
		return err
	}
	select {}
}

// workersOf makes the arguments of children with another kind of worker.
func workersOf(kind string) func(cluster.Child) []string {
	return func(child cluster.Child) []string {
		args := childArgs("")(child)
		if child.Role == cluster.RoleWorker {
			args[1] = kind
		}
		return args
	}
}

// gone reports whether a process has ended; an orphan may stay a zombie.
func gone(pid int) bool {
	s := state(pid)
	return s == 0 || s == 'Z'
}

// state is the letter by which the kernel says what a process is doing, 0 when there is
// none.
func state(pid int) byte { return stateIn("/proc/" + strconv.Itoa(pid)) }

// stateIn reads the state in a folder of a process, or of one of its threads.
func stateIn(dir string) byte {
	b, err := os.ReadFile(dir + "/stat")
	if err != nil {
		return 0
	}
	rest := b[bytes.LastIndexByte(b, ')')+1:]
	if len(rest) < 2 {
		return 0
	}
	return rest[1]
}

// released says whether a process holds no file, and so no lock, any more: its threads
// share them, and may end after the one that makes it a zombie.
func released(pid int) bool {
	threads, err := os.ReadDir("/proc/" + strconv.Itoa(pid) + "/task")
	return err != nil || gone(pid) && len(threads) < 2
}

// stop sends a process SIGSTOP and waits until no thread of it runs any more: kill
// returns earlier, while those on other CPUs still work.
func stop(t testing.TB, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	until(t, fmt.Sprintf("process %d stops", pid), func() bool {
		threads, err := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*")
		return err == nil && len(threads) > 0 &&
			!slices.ContainsFunc(threads, func(dir string) bool { return stateIn(dir) != 'T' })
	})
}

// until asks every millisecond, until true or the end of patience.
func until(t testing.TB, what string, ask func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	end := time.After(patience)
	for !ask() {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("not in time: %s", what)
		}
	}
}

// TestOwnerKilled tests that children do not outlive their parent, and leave nothing.
func TestOwnerKilled(t *testing.T) {
	for _, kind := range []string{"worker", "stuck"} {
		t.Run(kind, func(t *testing.T) { ownerKilled(t, kind) })
	}
}

func ownerKilled(t *testing.T, kind string) {
	dir := socketDir(t)
	owner, pids := runOwner(t, dir, kind)
	kill(t, owner.Process.Pid)
	for _, pid := range pids {
		until(t, fmt.Sprintf("process %d ends", pid), func() bool { return gone(pid) })
	}
	empty(t, dir)
}

// runOwner starts a cluster of a process of its own, and says of which processes: the
// dispatcher first.
func runOwner(t *testing.T, dir, kind string) (owner *process, pids []int) {
	t.Helper()
	owner = run(t, "owner", dir, kind)
	for range 3 {
		line, err := owner.out.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		pid, err := strconv.Atoi(strings.TrimSpace(line))
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	return owner, pids
}

// TestAllKilled: where all processes of a cluster were killed at once, the next cluster
// takes away what they left, and nothing of one that lives.
func TestAllKilled(t *testing.T) {
	dir := socketDir(t)
	living, err := cluster.Start(testContext(t), &cluster.Options{Dir: dir, InProcess: true})
	if err != nil {
		t.Fatal(err)
	}
	defer living.Close()
	owner, pids := runOwner(t, dir, "worker")
	// An owner that is stopped can't see its dispatcher's end, nor take away what that
	// left. The other way round the kernel continues a stopped dispatcher when its owner
	// ends.
	stop(t, owner.Process.Pid)
	kill(t, pids[0])
	until(t, "the dispatcher ends", func() bool { return gone(pids[0]) })
	kill(t, owner.Process.Pid)
	until(t, "the owner ends", func() bool { return gone(owner.Process.Pid) })
	for _, pid := range pids {
		until(t, fmt.Sprintf("process %d ends", pid), func() bool { return released(pid) })
	}
	// A worker that is killed while it connects to others leaves this.
	if err := os.WriteFile(filepath.Join(dir, "rank-1-0123456789ab.lock"), []byte("1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if n := len(listing(t, dir)); n != 5 {
		t.Fatalf("%d files, expected a socket and a lock of the living, the same of the dead, and a dead worker's lock", n)
	}
	next, err := cluster.Start(testContext(t), &cluster.Options{Dir: dir, InProcess: true})
	if err != nil {
		t.Fatal(err)
	}
	defer next.Close()
	var want []string
	for _, c := range []*cluster.Cluster{living, next} {
		name := filepath.Base(c.Addr())
		want = append(want, name, name+".lock")
	}
	slices.Sort(want)
	if got := listing(t, dir); !slices.Equal(got, want) {
		t.Errorf("%q are there, expected %q", got, want)
	}
	status(t, testContext(t), living, "workers", 1)
}

// listing is what is in dir, sorted.
func listing(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// TestTerminated: an owner that is asked to end ends its children.
func TestTerminated(t *testing.T) {
	dir := socketDir(t)
	owner := run(t, "owner", dir, "worker")
	if _, err := owner.out.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	if err := owner.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = owner.Wait()
	empty(t, dir)
}

// TestStuck tests that a process that does not end when asked is killed, also a stopped
// one.
func TestStuck(t *testing.T) {
	dir := socketDir(t)
	c, err := cluster.Start(testContext(t), &cluster.Options{Dir: dir, Grace: 20 * time.Millisecond, Args: workersOf("stuck")})
	if err != nil {
		t.Fatal(err)
	}
	parts := c.Parts()
	stop(t, parts[0].PID)
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	for _, p := range parts {
		if !gone(p.PID) {
			t.Errorf("%v lives", p)
		}
	}
	if err := c.Wait(); err != nil {
		t.Errorf("a closed cluster says %v", err)
	}
	empty(t, dir)
}

// TestDiesAtStart has a worker die each time that it is started, before the cluster is
// ready: Start returns its last words, with a worker beside it that lives, and whether
// workers are started again or not.
func TestDiesAtStart(t *testing.T) {
	for _, again := range []bool{false, true} {
		args := func(c cluster.Child) []string {
			if c.Name == "w1" {
				return []string{childArg(), "nobody"}
			}
			return childArgs("")(c)
		}
		dir := socketDir(t)
		c, err := cluster.Start(testContext(t), &cluster.Options{Workers: 2, Dir: dir, Restart: again, Args: args})
		if err == nil {
			c.Close()
			t.Fatal("it started")
		}
		if s := err.Error(); !errors.Is(err, cluster.ErrDied) || !strings.Contains(s, "worker w1 (pid ") || !strings.Contains(s, `no child "nobody"`) ||
			strings.Contains(s, "5 times in a row before all workers were ready") != again {
			t.Errorf("started again: %v; %v", again, err)
		}
		empty(t, dir)
	}
}

// childMute is a process that never connects.
func childMute(ctx context.Context, _ []string) error {
	fmt.Fprintln(os.Stderr, "mute is here")
	<-ctx.Done()
	return nil
}

// muteArgs makes the arguments of children of which one never connects.
func muteArgs(name string) func(cluster.Child) []string {
	return func(child cluster.Child) []string {
		args := childArgs("")(child)
		if child.String() == name {
			args[1] = "mute"
		}
		return args
	}
}

// TestNeverConnects has a part that lives and does not connect: the log names it, and
// then the error, with its process and what to do. On a loaded machine the others may be
// as late: then it has more time.
func TestNeverConnects(t *testing.T) {
	for name, does := range map[string]string{"worker w1": "has not connected to the dispatcher", "dispatcher": "does not answer at /"} {
		t.Run(name, func(t *testing.T) {
			want := []string{name + " (pid ", does, "mute is here", "kill -QUIT "}
			for limit := time.Second; ; limit *= 2 {
				log, err := neverConnects(t, name, limit)
				if !errors.Is(err, cluster.ErrNotReady) {
					t.Fatalf("%v, expected %v", err, cluster.ErrNotReady)
				}
				says := func(part string) bool { return strings.Contains(err.Error(), part) }
				if !slices.ContainsFunc(want, func(part string) bool { return !says(part) }) && !says("w0") &&
					strings.Contains(log, "the cluster is not ready yet") && strings.Contains(log, name+" (pid ") {
					return
				}
				if limit > time.Minute {
					t.Fatalf("%v; expected %q, and no other part; the log is %s", err, want, log)
				}
			}
		})
	}
}

// neverConnects starts a cluster of which one part does not connect.
func neverConnects(t *testing.T, name string, limit time.Duration) (log string, err error) {
	t.Helper()
	var text bytes.Buffer
	dir := socketDir(t)
	c, err := cluster.Start(testContext(t), &cluster.Options{Workers: 2, Dir: dir, Restart: true, Args: muteArgs(name),
		StartTimeout: limit, Logger: slog.New(slog.NewTextHandler(&text, nil))})
	if err == nil {
		c.Close()
		t.Fatal("it started")
	}
	empty(t, dir)
	return text.String(), err
}

// signalWriter calls a function when it is written to.
type signalWriter func()

func (f signalWriter) Write(b []byte) (int, error) {
	f()
	return len(b), nil
}

// TestNeverConnectsInterrupted ends the context while a worker is waited for that does
// not connect.
func TestNeverConnectsInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(testContext(t))
	defer cancel()
	dir := socketDir(t)
	c, err := cluster.Start(ctx, &cluster.Options{Workers: 2, Dir: dir, Args: muteArgs("worker w1"), Stderr: signalWriter(cancel)})
	if err == nil {
		c.Close()
		t.Fatal("it started")
	}
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	empty(t, dir)
}

// TestStartFails: what cannot start says why, and leaves nothing.
func TestStartFails(t *testing.T) {
	broken := func(role cluster.Role, args ...string) func(cluster.Child) []string {
		return func(c cluster.Child) []string {
			if c.Role == role {
				return append([]string{childArg()}, args...)
			}
			return childArgs("")(c)
		}
	}
	long := socketDir(t) + "/" + strings.Repeat("x", 200)
	for what, c := range map[string]struct {
		o    cluster.Options
		want error
		text string
	}{
		"no program":       {cluster.Options{Exe: "/nowhere/ringside"}, os.ErrNotExist, "/nowhere/ringside"},
		"bad dispatcher":   {cluster.Options{Args: broken(cluster.RoleDispatcher, "nobody")}, cluster.ErrDied, `no child "nobody"`},
		"bad worker":       {cluster.Options{Args: broken(cluster.RoleWorker, "nobody")}, cluster.ErrDied, `no child "nobody"`},
		"workers":          {cluster.Options{Workers: -1}, cluster.ErrOption, "Workers -1"},
		"start timeout":    {cluster.Options{StartTimeout: -1}, cluster.ErrOption, "StartTimeout"},
		"grace":            {cluster.Options{Grace: -1}, cluster.ErrOption, "Grace"},
		"threads":          {cluster.Options{Threads: 1e5}, cluster.ErrOption, "Threads 100000, expected at most 1024"},
		"address too long": {cluster.Options{InProcess: true, Addr: long}, nil, "unix socket"},
		"directory":        {cluster.Options{InProcess: true, Addr: "/tmp/x"}, local.ErrUnsafeDir, "/tmp"},
	} {
		t.Run(what, func(t *testing.T) {
			c.o.Dir = socketDir(t)
			got, err := cluster.Start(testContext(t), &c.o)
			if err == nil {
				got.Close()
				t.Fatal("it started")
			}
			if c.want != nil && !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
				t.Errorf("%v", err)
			}
			empty(t, c.o.Dir)
		})
	}
}

// TestTwoDispatchers tests that the error of the second dispatcher on a socket names the
// first.
func TestTwoDispatchers(t *testing.T) {
	for _, inProcess := range []bool{true, false} {
		c := start(t, cluster.Options{InProcess: inProcess})
		second, err := cluster.Start(testContext(t), &cluster.Options{Addr: c.Addr(), InProcess: inProcess, Args: childArgs("")})
		if err == nil {
			second.Close()
			t.Fatal("a second dispatcher started")
		}
		if !strings.Contains(err.Error(), c.Addr()) || !strings.Contains(err.Error(), ipc.ErrAddrInUse.Error()) ||
			!strings.Contains(err.Error(), fmt.Sprintf("pid %d", c.Parts()[0].PID)) {
			t.Errorf("%v", err)
		}
		if _, err := newModel(session(t, c)).train(2); err != nil {
			t.Errorf("the first one: %v", err)
		}
	}
}

// TestSameName: the second worker of a name is refused, and the first does not notice.
func TestSameName(t *testing.T) {
	c := start(t, cluster.Options{InProcess: true})
	w, err := worker.New(&worker.Options{Name: "w0"})
	if err != nil {
		t.Fatal(err)
	}
	err = w.Serve(testContext(t), c.Addr())
	if !errors.Is(err, worker.ErrNameTaken) || !strings.Contains(err.Error(), `"w0" is taken by pid `+strconv.Itoa(os.Getpid())) {
		t.Errorf("%v", err)
	}
	if _, err := newModel(session(t, c)).train(2); err != nil {
		t.Errorf("the first one: %v", err)
	}
}

// TestOtherVersion: a client of another version is told both, and counted.
func TestOtherVersion(t *testing.T) {
	c := start(t, cluster.Options{InProcess: true})
	_, err := local.New().Dial(testContext(t), c.Addr(), &ipc.Options{Hello: ipc.Peer{Role: ipc.RoleClient, Version: 99}})
	if !errors.Is(err, ipc.ErrVersion) || !strings.Contains(err.Error(), "99") {
		t.Errorf("%v", err)
	}
	status(t, testContext(t), c, "refused", 1)
}

// TestQuietEnd: a cluster that is closed says nothing, and its clients are told.
func TestQuietEnd(t *testing.T) {
	for workers := 1; workers <= 2; workers++ {
		t.Run(fmt.Sprint("sessions of ", workers), func(t *testing.T) {
			var said bytes.Buffer
			c := start(t, cluster.Options{Workers: 2, Stderr: &said})
			e := dial(t, c, &client.Options{Workers: workers})
			if _, err := newModel(tensor.NewSession(e, nil)).train(2); err != nil {
				t.Fatal(err)
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
			if said.Len() > 0 {
				t.Errorf("it says: %s", said.Bytes())
			}
			_, err := e.Submit(testContext(t), &tensor.Batch{Sync: true})
			if !errors.Is(err, client.ErrLost) || !strings.Contains(err.Error(), `worker "w`) || !strings.Contains(err.Error(), "is stopping") {
				t.Errorf("the client is told: %v", err)
			}
		})
	}
}

// TestStopped: one of several workers is asked to end while they train. The client is
// told which one, and why.
func TestStopped(t *testing.T) {
	for _, name := range []string{"w0", "w1"} {
		t.Run(name, func(t *testing.T) {
			c := start(t, cluster.Options{Workers: 2, Restart: true, Stderr: t.Output()})
			m := newModel(tensor.NewSession(dial(t, c, &client.Options{Config: &config.Config{NumWorkers: 2, AutoShard: true}}), nil))
			if _, err := m.train(2); err != nil {
				t.Fatal(err)
			}
			i := slices.IndexFunc(c.Parts(), func(p cluster.Part) bool { return p.Name == name })
			pid := c.Parts()[i].PID
			if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			var err error
			for err == nil {
				_, err = m.train(1)
			}
			if says := fmt.Sprintf("worker %q (pid %d) is stopping", name, pid); !errors.Is(err, client.ErrLost) || !strings.Contains(err.Error(), says) {
				t.Errorf("the client is told: %v, expected %q", err, says)
			}
		})
	}
}

// TestNobody: no dispatcher, or one without a worker.
func TestNobody(t *testing.T) {
	_, err := client.Dial(testContext(t), "/nowhere/dispatcher", nil)
	if !errors.Is(err, ipc.ErrNoListener) || !strings.Contains(err.Error(), "/nowhere/dispatcher") {
		t.Errorf("no dispatcher: %v", err)
	}
}

// TestContextEnds: the cluster ends with the context that it was started with.
func TestContextEnds(t *testing.T) {
	ctx, cancel := context.WithCancelCause(testContext(t))
	o := cluster.Options{Dir: socketDir(t), InProcess: true}
	c, err := cluster.Start(ctx, &o)
	if err != nil {
		t.Fatal(err)
	}
	tired := errors.New("tired")
	cancel(tired)
	if err := c.Wait(); !errors.Is(err, tired) {
		t.Errorf("%v", err)
	}
	empty(t, o.Dir)
}
