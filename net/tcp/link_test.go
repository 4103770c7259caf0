package tcp_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/net/nettest"
	"github.com/ringside-go/ringside/net/tcp"
)

// linked is one of two processes on two hosts: they exchange something, and then each
// waits for the other, one with something on its way and one with nothing, and says how
// that ends.
func linked(ctx context.Context, w ipc.Waiter, what, addr string) error {
	o := &ipc.Options{Waiter: w, Secret: []byte("two hosts"), Hello: ipc.Peer{Name: what}}
	var c ipc.Conn
	if what == "serves" {
		l, err := tcp.New().Listen(addr, o)
		if err != nil {
			return err
		}
		fmt.Println(l.Addr())
		if c, err = l.Accept(ctx); err != nil {
			return err
		}
	} else {
		var err error
		if c, err = tcp.New().Dial(ctx, addr, o); err != nil {
			return err
		}
	}
	e := newEnd(c, w)
	n := 100_000
	if err := e.exchange(ctx, 1, [][]byte{make([]byte, n)}, [][]byte{make([]byte, n)}); err != nil {
		return err
	}
	fmt.Println("connected")
	var word string
	if _, err := fmt.Scan(&word); err != nil { // until the link is down
		return err
	}
	start := time.Now()
	if what == "serves" {
		if _, err := e.Reserve(ctx, 1, 100); err != nil {
			return err
		}
		if err := e.Commit(); err != nil {
			return err
		}
	}
	_, err := e.Recv(ctx)
	fmt.Printf("%v after %.1f s: %v\n", errors.Is(err, ipc.ErrPeerGone), time.Since(start).Seconds(), err)
	return nil
}

// TestLinkDown pulls the cable between two hosts: both ends learn it, the one that sends
// and the one that is idle.
func TestLinkDown(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes as long as the timeouts of the connection: 10 seconds")
	}
	hosts := nettest.ForTest(t, os.Getenv)
	ctx := testContext(t)
	at := hosts[0].Addr + ":0"
	var outs [2]*bufio.Reader
	var ins [2]io.Writer
	for i, what := range []string{"serves", "joins"} {
		cmd := hosts[i].Command(ctx, os.Args[0], childFlag, what, at)
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if ins[i], err = cmd.StdinPipe(); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
		outs[i] = bufio.NewReader(out)
		if i == 0 {
			at = strings.TrimSpace(line(t, outs[i]))
		}
	}
	for i := range outs {
		if s := line(t, outs[i]); s != "connected\n" {
			t.Fatalf("%q", s)
		}
	}
	if out, err := hosts[0].Command(ctx, "ip", "link", "set", nettest.Link, "down").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for i := range ins {
		if _, err := io.WriteString(ins[i], "down\n"); err != nil {
			t.Fatal(err)
		}
	}
	for i := range outs {
		s := line(t, outs[i])
		t.Log(hosts[i].Name, s)
		if !strings.HasPrefix(s, "true after ") {
			t.Errorf("%s: %s", hosts[i].Name, s)
		}
	}
}

func line(t *testing.T, r *bufio.Reader) string {
	t.Helper()
	s, err := r.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return s
}
