package breaker_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/lingertest"
	"github.com/ringside-go/ringside/ring"
	"github.com/ringside-go/ringside/shm"
	"github.com/ringside-go/ringside/shm/limits/limitstest"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster"
	"github.com/ringside-go/ringside/tensor/cluster/client"
)

const (
	secret = "the secret of a test"

	// farSuffix is what the dispatcher adds to the path of the secret, for the file that
	// has its TCP address.
	farSuffix = ".far"
)

// childSlow keeps connections to an address that say nothing or a byte at a time, and
// opens another for each that ends.
func childSlow(ctx context.Context, args []string) error { // HOST:PORT CONNECTIONS
	return strangers(ctx, "tcp", args, "r") // a proper greeting's first byte
}

// childSilent keeps connections to a dispatcher's socket that say nothing, and opens
// another for each that ends.
func childSilent(ctx context.Context, args []string) error { // ADDR CONNECTIONS
	return strangers(ctx, "unixpacket", args, "")
}

// strangers keeps connections, half of which say first.
func strangers(ctx context.Context, network string, args []string, first string) error {
	var n int
	if _, err := fmt.Sscan(args[1], &n); err != nil {
		return err
	}
	open := make(chan struct{}, n)
	for i := range n {
		go func() {
			for {
				c, err := net.Dial(network, args[0])
				if err != nil {
					<-time.After(time.Millisecond)
					continue
				}
				select {
				case open <- struct{}{}:
				default:
				}
				if i%2 == 0 && first != "" {
					_, _ = c.Write([]byte(first))
				}
				_, _ = c.Read(make([]byte, 1)) // until the dispatcher ends it
				c.Close()
			}
		}()
	}
	for range n {
		<-open
	}
	fmt.Println("they are connected")
	<-ctx.Done()
	return nil
}

// startFar starts a cluster of one worker that clients of other hosts reach at addr.
func startFar(t *testing.T, encrypt bool) (c *cluster.Cluster, addr string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte(secret), 0o600); err != nil {
		t.Fatal(err)
	}
	c = start(t, cluster.Options{Workers: 1, ListenTCP: "127.0.0.1:0", SecretFile: file, TLS: ipc.TLSFiles{On: encrypt}})
	b, err := os.ReadFile(file + farSuffix)
	if err != nil {
		t.Fatal(err)
	}
	return c, string(b)
}

// dialFar opens a session as a client of another host does.
func dialFar(t *testing.T, addr string, encrypt *ipc.TLS) *client.Engine {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	e, err := client.Dial(ctx, addr, &client.Options{Secret: []byte(secret), TLS: encrypt})
	if err != nil {
		t.Fatalf("a client with the secret: %v", err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

// TestStrangers has hundreds of slow connections at the dispatcher's TCP address, none of
// which knows the secret. Clients that do are let in, and sessions go on.
func TestStrangers(t *testing.T) {
	strangers, rounds := 1200, 8
	if testing.Short() {
		strangers, rounds = 600, 2
	}
	c, addr := startFar(t, false)
	far := func() *client.Engine { return dialFar(t, addr, nil) }
	near, other := newHonest(t, dial(t, c, 1)), newHonest(t, far())
	attack(t, "slow", addr, fmt.Sprint(strangers))
	var longest time.Duration
	for range rounds {
		near.round()
		other.round()
		began := time.Now()
		e := far()
		longest = max(longest, time.Since(began))
		if x, err := tensor.Ones(tensor.NewSession(e, nil), tensor.F32, 100).Sum().Item(); err != nil || x != 100 {
			t.Fatalf("a new client got %v, %v; expected 100", x, err)
		}
		e.Close()
	}
	t.Logf("%d new clients with the secret were let in, the last after %v", rounds, longest)
	near.report(fmt.Sprint(strangers, " strangers"), maxStallFull)
	other.report(fmt.Sprint(strangers, " strangers, by TCP"), maxStallFull)
}

// TestSilentClients has hundreds of local connections that say nothing. Clients are let
// in, and sessions go on.
func TestSilentClients(t *testing.T) {
	silent, rounds := 1200, 30
	if testing.Short() {
		silent, rounds = 300, 3
	}
	c := start(t, cluster.Options{Workers: 1})
	h := newHonest(t, dial(t, c, 1))
	attack(t, "silent", c.Addr(), fmt.Sprint(silent))
	var longest time.Duration
	for range rounds {
		h.round()
		began := time.Now()
		e := dial(t, c, 1)
		longest = max(longest, time.Since(began))
		if x, err := tensor.Ones(tensor.NewSession(e, nil), tensor.F32, 100).Sum().Item(); err != nil || x != 100 {
			t.Fatalf("a new client got %v, %v; expected 100", x, err)
		}
		e.Close()
	}
	t.Logf("%d new clients were let in, the last after %v at most", rounds, longest)
	h.report(fmt.Sprint(silent, " silent clients"), maxStallFull)
}

// childLinger sends descriptors whose close waits for an hour: TCP sockets that linger
// because their bytes are never read, at so many levels within unix sockets. It sends
// each without a message, by a connection of its own, which it closes. It prints its line
// after the first FIRST of them.
func childLinger(ctx context.Context, args []string) error { // ADDR LEVELS FIRST
	var levels, first int
	if _, err := fmt.Sscan(args[1]+" "+args[2], &levels, &first); err != nil {
		return err
	}
	page, err := shm.Create(4096, &shm.Options{Backing: shm.Memfd})
	if err == nil {
		err = ring.InitBell(page.Bytes()[:ring.BellSize])
	}
	if err == nil {
		err = ring.InitBell(page.Bytes()[ring.BellSize:][:ring.BellSize])
	}
	if err != nil {
		return err
	}
	for n := 0; ctx.Err() == nil; n++ {
		sock, err := bare(args[0], page.File())
		if err != nil {
			continue
		}
		f, letGo, err := lingertest.Socket()
		if err == nil {
			context.AfterFunc(ctx, letGo)
		}
		for i := 0; err == nil && i < levels; i++ {
			f, err = queued(f)
		}
		if err != nil {
			return err
		}
		_, _, err = sock.WriteMsgUnix([]byte("x"), unix.UnixRights(int(f.Fd())), nil)
		go f.Close() // it waits itself if it is the last to close
		sock.Close()
		if err != nil {
			return err
		}
		if n == first {
			fmt.Println("the first are sent")
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
		}
	}
	return nil
}

// queued returns an end of a pair of unix sockets in which f is queued, in a message with
// as many descriptors as there may be. It closes f. The close of the last descriptor of
// the end waits as long as that of f.
func queued(f *os.File) (*os.File, error) {
	defer func() { go f.Close() }()
	all := make([]int, 253)
	for i := range all {
		all[i] = int(os.Stderr.Fd())
	}
	all[100] = int(f.Fd())
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fds[1])
	return os.NewFile(uintptr(fds[0]), "queued"), unix.Sendmsg(fds[1], []byte("x"), unix.UnixRights(all...), nil, 0)
}

// TestLingeringWithFewThreads has a client send more descriptors whose close waits than a
// dispatcher may have threads: it is not ended for want of one, and others come and go.
func TestLingeringWithFewThreads(t *testing.T) {
	const threads, levels, rounds = 48, 6, 20
	group := limitstest.ThreadGroup(t, os.Getenv, threads)
	c := start(t, cluster.Options{Workers: 1, Restart: true})
	dispatcher := c.Parts()[0].PID
	if err := os.WriteFile(group+"/cgroup.procs", fmt.Append(nil, dispatcher), 0o600); err != nil {
		t.Fatal(err)
	}
	h := newHonest(t, dial(t, c, 1))
	attack(t, "linger", c.Addr(), fmt.Sprint(levels), fmt.Sprint(2*threads))
	for range rounds {
		h.round()
		dial(t, c, 1).Close()
	}
	if pid := c.Parts()[0].PID; pid != dispatcher || c.Restarts() > 0 {
		t.Errorf("the dispatcher was process %d and is %d, %d were started again", dispatcher, pid, c.Restarts())
	}
	h.report("descriptors whose close waits, few threads", maxStall)
}

// TestLingering has a client send descriptors whose close waits. Sessions go on, and new
// ones open: the dispatcher waits for no close.
func TestLingering(t *testing.T) {
	const first = 64
	rounds := 20
	if testing.Short() {
		rounds = 3
	}
	for _, levels := range []int{0, 1, 3} {
		t.Run(fmt.Sprintf("queued at %d levels", levels), func(t *testing.T) {
			c := start(t, cluster.Options{Workers: 1})
			h := newHonest(t, dial(t, c, 1))
			before := count(t, c, "task")
			attack(t, "linger", c.Addr(), fmt.Sprint(levels), fmt.Sprint(first))
			for range rounds {
				h.round()
				e := dial(t, c, 1)
				if x, err := tensor.Ones(tensor.NewSession(e, nil), tensor.F32, 100).Sum().Item(); err != nil || x != 100 {
					t.Fatalf("a new client got %v, %v; expected 100", x, err)
				}
				e.Close()
			}
			// Each close that waits has a thread.
			if now := count(t, c, "task"); now >= before+first/2 {
				t.Errorf("the dispatcher has %d threads, %d before: it waits for closes", now, before)
			}
			h.report(fmt.Sprintf("descriptors whose close waits, queued at %d levels", levels), maxStall)
		})
	}
}

// count returns how many descriptors (fd) or threads (task) the dispatcher has.
func count(t *testing.T, c *cluster.Cluster, of string) int {
	t.Helper()
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/%s", c.Parts()[0].PID, of))
	if err != nil {
		t.Fatal(err)
	}
	return len(files)
}
