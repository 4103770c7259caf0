package cluster_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ringside-go/ringside/ipc/local"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster"
	"github.com/ringside-go/ringside/tensor/cluster/client"
	"github.com/ringside-go/ringside/tensor/cluster/dispatcher"
	"github.com/ringside-go/ringside/tensor/cluster/worker"
)

// timeout ends a test that hangs.
const timeout = 10 * time.Minute

// childFlag makes the test binary a part of a cluster, or a client that is to be killed.
// It names the device of the tests' workers.
const childFlag = "-child="

func childArg() string { return childFlag + *onDevice }

func TestMain(m *testing.M) {
	if kind, ok := strings.CutPrefix(os.Args[min(1, len(os.Args)-1)], childFlag); ok && len(os.Args) > 2 {
		*onDevice = kind
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		err := child(ctx, os.Args[2], os.Args[3:])
		stop()
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// children are what the test binary can be.
var children = map[string]func(ctx context.Context, args []string) error{
	"dispatcher": childDispatcher,
	"worker":     childWorker,
	"client":     childClient,
	"echo":       childEcho,
	"owner":      childOwner,
	"hoarder":    childHoarder,
	"stuck":      childStuck,
	"mute":       childMute,
	"far":        childFar,
	"sharer":     childSharer,
	"endless":    childEndless,
	"linked":     childLinked,
	"trainer":    childTrainer,
	"sessions":   childSessions,
}

func child(ctx context.Context, name string, args []string) error {
	run := children[name]
	if name == "watched" {
		run = childWatched // it looks into children itself
	}
	if run == nil {
		return fmt.Errorf("no child %q", name)
	}
	return run(ctx, args)
}

// childArgs are cluster.DefaultArgs for the test binary, and then where segments are
// made.
func childArgs(shmDir string) func(cluster.Child) []string {
	return func(c cluster.Child) []string {
		return append(append([]string{childArg()}, cluster.DefaultArgs(c)...), shmDir)
	}
}

func childDispatcher(ctx context.Context, args []string) error { // --listen ADDR
	d, err := dispatcher.New(nil)
	if err != nil {
		return err
	}
	l, err := local.New().Listen(args[1], d.ListenOptions())
	if err != nil {
		return err
	}
	return d.Serve(ctx, l)
}

// --connect ADDR --name NAME DIR
func childWorker(ctx context.Context, args []string) error {
	dev, err := newDevice(args[4])
	if err != nil {
		return err
	}
	w, err := worker.New(&worker.Options{Name: args[3], Device: dev, Reconnect: time.Minute, AllowUnsealed: args[4] != ""})
	if err != nil {
		return err
	}
	return w.Serve(ctx, args[1])
}

// childClient trains until it is killed or its session ends, and says each step.
func childClient(ctx context.Context, args []string) error { // ADDR DIR
	e, err := client.Dial(ctx, args[0], &client.Options{Name: "victim", Segment: segments(args[1])})
	if err != nil {
		return err
	}
	defer e.Close()
	m := newModel(tensor.NewSession(e, &tensor.SessionOptions{Context: ctx}))
	for i := 0; ; i++ {
		loss := m.step(i)
		if _, err := loss.Item(); err != nil {
			return err
		}
		loss.Free()
		fmt.Println("step", i)
	}
}

func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	t.Cleanup(cancel)
	return ctx
}

// socketDir is a directory for sockets, whose paths must be short.
func socketDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "rs")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// start starts a cluster that ends with the test. Afterwards its directory must be empty.
func start(t testing.TB, o cluster.Options) *cluster.Cluster {
	t.Helper()
	return startIn(t, "", o)
}

// startIn makes the workers' segments in shmDir.
func startIn(t testing.TB, shmDir string, o cluster.Options) *cluster.Cluster {
	t.Helper()
	o.Dir = socketDir(t)
	o.Args = childArgs(shmDir)
	if o.Worker == nil {
		o.Worker = func(name string) (*worker.Options, error) {
			dev, err := newDevice(shmDir)
			return &worker.Options{Name: name, Device: dev, AllowUnsealed: shmDir != ""}, err
		}
	}
	c, err := cluster.Start(testContext(t), &o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		empty(t, o.Dir)
	})
	return c
}

// process is a child of the test's own, killed with the test.
type process struct {
	*exec.Cmd
	out *bufio.Reader
}

// run starts a child.
func run(t testing.TB, name string, args ...string) *process {
	t.Helper()
	cmd := exec.Command(os.Args[0], append([]string{childArg(), name}, args...)...)
	cmd.Stderr = os.Stderr
	return begin(t, cmd)
}

// begin starts a process.
func begin(t testing.TB, cmd *exec.Cmd) *process {
	t.Helper()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return &process{cmd, bufio.NewReader(out)}
}

// empty checks that nothing is left in dir.
func empty(t testing.TB, dir string) {
	t.Helper()
	left, err := os.ReadDir(dir)
	if err != nil {
		t.Error(err)
	}
	for _, e := range left {
		t.Errorf("%s is left in the runtime directory", e.Name())
	}
}

// dial opens a session through the cluster that ends with the test.
func dial(t testing.TB, c *cluster.Cluster, o *client.Options) *client.Engine {
	t.Helper()
	e, err := client.Dial(testContext(t), c.Addr(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

func session(t testing.TB, c *cluster.Cluster) *tensor.Session {
	t.Helper()
	return tensor.NewSession(dial(t, c, nil), &tensor.SessionOptions{Context: testContext(t)})
}
