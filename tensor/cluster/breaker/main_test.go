package breaker_test

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/local"
	"github.com/ringside-go/ringside/net/tcp"
	"github.com/ringside-go/ringside/tensor/cluster"
	"github.com/ringside-go/ringside/tensor/cluster/client"
	"github.com/ringside-go/ringside/tensor/cluster/dispatcher"
	"github.com/ringside-go/ringside/tensor/cluster/worker"
	"github.com/ringside-go/ringside/tensor/shard/config"
)

// timeout ends a test that hangs.
const timeout = 5 * time.Minute

// childFlag makes the test binary a part of a cluster, or an attacker.
const childFlag = "-child"

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == childFlag {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		err := children[os.Args[2]](ctx, os.Args[3:])
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
	"endless":    childEndless,
	"flood":      childFlood,
	"slow":       childSlow,
	"linger":     childLinger,
	"crowd":      childCrowd,
	"scribble":   childScribble,
	"greedy":     childGreedy,
	"hoard":      childHoard,
	"plain":      childPlain,
	"silent":     childSilent,
}

// flags are those of a dispatcher and of a worker.
type flags struct {
	listen, far, secret, connect, name string
	tls                                ipc.TLSFiles
	keep                               time.Duration
}

func parse(args []string) (f flags, encrypt *ipc.TLS, err error) {
	set := flag.NewFlagSet("child", flag.ContinueOnError)
	set.StringVar(&f.listen, "listen", "", "")
	set.StringVar(&f.far, "listen-tcp", "", "")
	set.StringVar(&f.secret, "secret-file", "", "")
	set.StringVar(&f.connect, "connect", "", "")
	set.StringVar(&f.name, "name", "", "")
	set.BoolVar(&f.tls.On, "tls", false, "")
	set.DurationVar(&f.keep, "keep", 0, "how long a worker keeps memory that no session uses")
	if err = set.Parse(args); err == nil {
		encrypt, err = f.tls.Read()
	}
	return f, encrypt, err
}

func childDispatcher(ctx context.Context, args []string) error {
	f, encrypt, err := parse(args)
	if err != nil {
		return err
	}
	// fewer than come at once in TestCrowd
	d, err := dispatcher.New(&dispatcher.Options{MaxIdle: 64, Secret: []byte(secret), TLS: encrypt})
	if err != nil {
		return err
	}
	var listeners []ipc.Listener
	if f.far != "" {
		far, err := tcp.New().Listen(f.far, d.ListenOptions())
		if err == nil {
			err = os.WriteFile(f.secret+farSuffix, []byte(far.Addr()), 0o600)
		}
		if err != nil {
			return err
		}
		listeners = append(listeners, far)
	}
	l, err := local.New().Listen(f.listen, d.ListenOptions())
	if err != nil {
		return err
	}
	return d.Serve(ctx, append(listeners, l)...)
}

func childWorker(ctx context.Context, args []string) error {
	f, encrypt, err := parse(args)
	if err != nil {
		return err
	}
	w, err := worker.New(&worker.Options{Name: f.name, TLS: encrypt, KeepUnused: f.keep})
	if err != nil {
		return err
	}
	return w.Serve(ctx, f.connect)
}

// start starts a cluster of child processes that ends with the test.
func start(t *testing.T, o cluster.Options) *cluster.Cluster {
	t.Helper()
	dir, err := os.MkdirTemp("", "rs") // paths of sockets must be short
	if err != nil {
		t.Fatal(err)
	}
	o.Dir = dir
	args := o.Args
	if args == nil {
		args = cluster.DefaultArgs
	}
	o.Args = func(c cluster.Child) []string { return append([]string{childFlag}, args(c)...) }
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	c, err := cluster.Start(ctx, &o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		cancel()
		os.RemoveAll(dir)
	})
	return c
}

// dial opens a session of so many workers, which ends with the test.
func dial(t *testing.T, c *cluster.Cluster, workers int) *client.Engine {
	t.Helper()
	e, err := tryDial(t, c, workers)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

// tryDial opens a session of so many workers.
func tryDial(t *testing.T, c *cluster.Cluster, workers int) (*client.Engine, error) {
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	return client.Dial(ctx, c.Addr(), &client.Options{Config: &config.Config{NumWorkers: workers}})
}

// attack starts an attacker and waits for its first line.
func attack(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0], append([]string{childFlag, name}, args...)...)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatalf("%s: %v, expected a line", name, err)
	}
	return cmd
}

// interrupt ends an attacker that fails if it got what it must not get.
func interrupt(t *testing.T, attacker *exec.Cmd) {
	t.Helper()
	if err := attacker.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := attacker.Wait(); err != nil {
		t.Errorf("the attacker: %v", err)
	}
}
