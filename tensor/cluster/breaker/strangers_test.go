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
// over bytes that are never read, or unix sockets in which such are queued. Each comes
// without a message, and its connection ends.
func childLinger(ctx context.Context, args []string) error { // ADDR [queued]
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
		f, err := lingering(ctx)
		if err == nil && len(args) > 1 {
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
		if n == 0 {
			fmt.Println("the first is sent")
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
		}
	}
	return nil
}

// queued returns an end of a pair of unix sockets in which f is queued, which it closes.
// The close of the last descriptor of the end waits as long as that of f.
func queued(f *os.File) (*os.File, error) {
	defer func() { go f.Close() }()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fds[1])
	return os.NewFile(uintptr(fds[0]), "queued"), unix.Sendmsg(fds[1], []byte("x"), unix.UnixRights(int(f.Fd())), nil, 0)
}

// lingering returns a TCP socket with more bytes than its peer takes. The peer reads none
// until ctx is done.
func lingering(ctx context.Context) (*os.File, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	defer l.Close()
	a, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		return nil, err
	}
	defer a.Close() // the caller's is another descriptor
	b, err := l.Accept()
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, func() { b.Close() })
	f, err := a.(*net.TCPConn).File()
	if err != nil {
		return nil, err
	}
	fd := int(f.Fd())
	if err := unix.SetNonblock(fd, true); err != nil {
		return nil, err
	}
	for block := make([]byte, 64<<10); ; {
		if _, err := unix.Write(fd, block); err == unix.EAGAIN {
			break
		} else if err != nil {
			return nil, err
		}
	}
	// A socket that does not block does not linger.
	if err := unix.SetNonblock(fd, false); err != nil {
		return nil, err
	}
	return f, unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1, Linger: 3600})
}

// TestLingeringWithFewThreads has a client send descriptors whose close waits to a
// dispatcher that may have few threads: it is not ended for want of one.
func TestLingeringWithFewThreads(t *testing.T) {
	const threads, waiting = 48, 64
	group := limitstest.ThreadGroup(t, os.Getenv, threads)
	c := start(t, cluster.Options{Workers: 1, Restart: true})
	dispatcher := c.Parts()[0].PID
	if err := os.WriteFile(group+"/cgroup.procs", fmt.Append(nil, dispatcher), 0o600); err != nil {
		t.Fatal(err)
	}
	h := newHonest(t, dial(t, c, 1))
	attack(t, "linger", c.Addr(), "queued")
	before, open := 0, 0
	for end := time.Now().Add(time.Minute); open < before+waiting && c.Restarts() == 0 && time.Now().Before(end); {
		h.round()
		dial(t, c, 1).Close()
		files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", c.Parts()[0].PID))
		if err != nil {
			t.Fatal(err)
		}
		if open = len(files); before == 0 {
			before = open
		}
	}
	if open < before+waiting {
		t.Errorf("the dispatcher has %d descriptors, %d before: it does not wait to close %d", open, before, waiting)
	}
	if pid := c.Parts()[0].PID; pid != dispatcher || c.Restarts() > 0 {
		t.Errorf("the dispatcher was process %d and is %d, %d were started again", dispatcher, pid, c.Restarts())
	}
	h.report("descriptors whose close waits, few threads", maxStall)
}

// TestLingering has a client send descriptors whose close waits. Sessions go on, and new
// ones open.
func TestLingering(t *testing.T) {
	rounds := 20
	if testing.Short() {
		rounds = 3
	}
	c := start(t, cluster.Options{Workers: 1})
	h := newHonest(t, dial(t, c, 1))
	attack(t, "linger", c.Addr())
	for range rounds {
		h.round()
		e := dial(t, c, 1)
		if x, err := tensor.Ones(tensor.NewSession(e, nil), tensor.F32, 100).Sum().Item(); err != nil || x != 100 {
			t.Fatalf("a new client got %v, %v; expected 100", x, err)
		}
		e.Close()
	}
	h.report("descriptors whose close waits", maxStall)
}
