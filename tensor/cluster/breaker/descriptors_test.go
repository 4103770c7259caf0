package breaker_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ringside-go/ringside/collective/testsize"
	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/encoding"
	"github.com/ringside-go/ringside/net/route"
	"github.com/ringside-go/ringside/ring"
	"github.com/ringside-go/ringside/shm"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster"
	"github.com/ringside-go/ringside/tensor/cluster/client"
)

// limitFiles bounds the descriptors of each process of a cluster.
func limitFiles(t *testing.T, c *cluster.Cluster, n uint64) {
	t.Helper()
	for _, p := range c.Parts() {
		if err := unix.Prlimit(p.PID, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: n, Max: n}, nil); err != nil {
			t.Fatal(err)
		}
	}
}

// bare connects to a dispatcher as a client and returns the socket.
func bare(addr string, page *os.File) (*net.UnixConn, error) {
	sock, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: addr, Net: "unixpacket"})
	if err != nil {
		return nil, err
	}
	hello := encoding.AppendHello(nil, &encoding.Hello{Version: encoding.Version, Role: uint8(ipc.RoleClient), PID: uint32(os.Getpid()),
		Layout: ring.Layout, RoomBell: ring.BellSize, Name: "attacker"})
	_, _, err = sock.WriteMsgUnix(hello, unix.UnixRights(int(page.Fd())), nil)
	answer := encoding.Busy{}
	for buf := make([]byte, encoding.MaxHandshake); err == nil; {
		var n int
		if n, err = sock.Read(buf); err == nil && encoding.ParseBusy(buf[:n], &answer) != nil {
			return sock, nil // Welcome, without its descriptors, or Refuse
		}
	}
	sock.Close()
	return nil, err
}

// childFlood sends descriptors without messages over the conns of 12 clients, so many
// over each, and opens another conn for one that ends.
func childFlood(ctx context.Context, args []string) error { // ADDR DATAGRAMS FILES
	var datagrams, files int
	if _, err := fmt.Sscan(args[1]+" "+args[2], &datagrams, &files); err != nil {
		return err
	}
	page, err := shm.Create(4096, &shm.Options{Backing: shm.Memfd})
	if err == nil {
		err = errors.Join(ring.InitBell(page.Bytes()[:ring.BellSize]), ring.InitBell(page.Bytes()[ring.BellSize:][:ring.BellSize]))
	}
	if err != nil {
		return err
	}
	fds := make([]int, files)
	for i := range fds {
		fds[i] = int(page.File().Fd())
	}
	sent := make(chan struct{}, 1)
	for range 12 {
		go func() {
			for {
				sock, err := bare(args[0], page.File())
				if err != nil {
					continue
				}
				for range datagrams {
					if _, _, err := sock.WriteMsgUnix([]byte("x"), unix.UnixRights(fds...), nil); err != nil {
						break
					}
				}
				select {
				case sent <- struct{}{}:
				default:
				}
				_, _ = sock.Read(make([]byte, 1)) // until the dispatcher ends it
				sock.Close()
			}
		}()
	}
	<-sent
	fmt.Println("flooding")
	<-ctx.Done()
	return nil
}

// dialAmid opens a session beside a flood. While the flood has the descriptors that are
// for clients, a new one is refused, and tries again.
func dialAmid(t *testing.T, c *cluster.Cluster) *client.Engine {
	t.Helper()
	for end := time.Now().Add(timeout); ; {
		e, err := tryDial(t, c, 1)
		if err == nil {
			t.Cleanup(func() { e.Close() })
			return e
		}
		if !errors.Is(err, ipc.ErrRefused) || time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// TestDescriptors has clients send the dispatcher descriptors without messages, as many
// as it may have open. Sessions go on, and new ones open.
func TestDescriptors(t *testing.T) {
	// datagrams, and descriptors in each
	floods := [][2]int{{20, 1}, {2, ipc.MaxFiles}, {1000, ipc.MaxFiles}}
	if testsize.Raced {
		floods = floods[:1]
	}
	for _, flood := range floods {
		t.Run(fmt.Sprint(flood), func(t *testing.T) {
			c := start(t, cluster.Options{Workers: 2})
			limitFiles(t, c, 256)
			one, two := newHonest(t, dial(t, c, 1)), newHonest(t, dial(t, c, 2))
			attack(t, "flood", c.Addr(), fmt.Sprint(flood[0]), fmt.Sprint(flood[1]))
			rounds := 30
			if testing.Short() {
				rounds = 3
			}
			for range rounds {
				one.round()
				two.round()
				fresh := dialAmid(t, c)
				if x, err := tensor.Ones(tensor.NewSession(fresh, nil), tensor.F32, 100).Sum().Item(); err != nil || x != 100 {
					t.Fatalf("a new client got %v, %v; expected 100", x, err)
				}
				fresh.Close()
			}
			one.report("descriptors without messages", maxStallFull)
			two.report("descriptors without messages, two workers", maxStallFull)
		})
	}
}

// TestTooManyClients has more clients open sessions than the dispatcher and the worker
// have descriptors for. The rest are refused, and no session ends.
func TestTooManyClients(t *testing.T) {
	most, clients := 256, 300
	if testing.Short() {
		most, clients = 64, 75
	}
	c := start(t, cluster.Options{Workers: 1})
	limitFiles(t, c, uint64(most))
	h := newHonest(t, dial(t, c, 1))
	var sessions []*tensor.Session
	refused := 0
	// Connections that are being closed have descriptors for a moment, on a busy machine
	// for longer: then later clients are let in.
	for tries := 0; tries < clients || len(sessions) < most/2 && tries < 10*clients; tries++ {
		e, err := tryDial(t, c, 1)
		if err != nil {
			if refused++; !errors.Is(err, ipc.ErrRefused) || !strings.Contains(err.Error(), fmt.Sprintf("too many clients: %d descriptors, raise it by", most)) {
				t.Fatalf("client %d: %v", len(sessions)+refused, err)
			}
			continue
		}
		t.Cleanup(func() { e.Close() })
		sessions = append(sessions, tensor.NewSession(e, nil))
	}
	h.round()
	for i, s := range sessions {
		if x, err := tensor.Ones(s, tensor.F32, 100).Sum().Item(); err != nil || x != 100 {
			t.Fatalf("client %d got %v, %v; expected 100", i, x, err)
		}
	}
	t.Logf("%d clients were let in and %d refused, by %d descriptors", len(sessions), refused, most)
	if len(sessions) < most/2 || refused == 0 {
		t.Errorf("%d clients were let in and %d refused, expected at least %d and 1", len(sessions), refused, most/2)
	}
	m, err := route.Dial(t.Context(), route.Order(), []string{c.Addr()}, &ipc.Options{Hello: ipc.Peer{Role: ipc.RoleControl}})
	if err != nil {
		t.Fatalf("control: %v", err)
	}
	m.Close()
	h.report("too many clients", maxStall)
}
