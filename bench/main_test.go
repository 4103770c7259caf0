package bench

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"
	"testing"

	"github.com/ringside-go/ringside/ipc/local"
	"github.com/ringside-go/ringside/shm"
	"github.com/ringside-go/ringside/tensor/cluster/dispatcher"
	"github.com/ringside-go/ringside/tensor/cluster/worker"
	"github.com/ringside-go/ringside/tensor/cpu"
)

// TestMain makes the test binary its own cluster and peer: the arguments are those of the
// command line.
func TestMain(m *testing.M) {
	os.Setenv("RINGSIDE_FLIGHT", "off") // nothing in the user's cache
	if len(os.Args) > 1 {
		var err error
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		switch args := os.Args[2:]; os.Args[1] {
		case "dispatcher":
			err = serveDispatcher(ctx, args[1])
		case "worker":
			threads := 1
			if len(args) > 5 {
				threads, err = strconv.Atoi(args[5])
			}
			if err == nil {
				err = serveWorker(ctx, args[1], args[3], threads)
			}
		case "bench-peer":
			err = Peer(args[0])
		default:
			os.Exit(m.Run())
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func serveDispatcher(ctx context.Context, addr string) error {
	d, err := dispatcher.New(nil)
	if err != nil {
		return err
	}
	l, err := local.New().Listen(addr, d.ListenOptions())
	if err != nil {
		return err
	}
	return d.Serve(ctx, l)
}

func serveWorker(ctx context.Context, addr, name string, threads int) error {
	dev, err := cpu.New(&cpu.Options{Threads: threads, Arena: shm.ArenaOptions{Segment: worker.Segments()}})
	if err != nil {
		return err
	}
	w, err := worker.New(&worker.Options{Name: name, Device: dev})
	if err != nil {
		return err
	}
	return w.Serve(ctx, addr)
}

// testSelf makes a command of the test binary.
func testSelf(t testing.TB) func(args ...string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return func(args ...string) *exec.Cmd {
		c := exec.Command(exe, args...)
		c.Stderr = os.Stderr
		return c
	}
}
