package local_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/local"
)

// helperBusy listens, but computes until a file is there before it accepts.
func helperBusy(ctx context.Context, args []string) error { // PATH FILE
	busy := sync.OnceFunc(func() {
		for ctx.Err() == nil {
			if _, err := os.Stat(args[1]); err == nil {
				return
			}
		}
	})
	l, err := local.Stepping(func(step string) {
		if step == "greet: accepts" {
			busy()
		}
	}).Listen(args[0], nil)
	if err != nil {
		return err
	}
	defer l.Close()
	fmt.Println("listening")
	for {
		if _, err := l.Accept(ctx); err != nil {
			return err
		}
	}
}

// TestBusyListener: a dialer waits for a listener whose process has something to do, far
// beyond the timeout of a handshake.
func TestBusyListener(t *testing.T) {
	ctx := testContext(t)
	path, over := filepath.Join(socketDir(t), "s"), filepath.Join(t.TempDir(), "over")
	start(t, "busy", path, over).line(t)
	waits := 0
	c, err := local.Stepping(func(step string) {
		if step != "dial: waits on" {
			return
		}
		if waits++; waits == 3 {
			if err := os.WriteFile(over, nil, 0o600); err != nil {
				t.Error(err)
			}
		}
	}).Dial(ctx, path, &ipc.Options{HandshakeTimeout: 20 * time.Millisecond})
	if err != nil {
		t.Fatalf("after %d waits: %v", waits, err)
	}
	c.Close()
	if waits < 3 {
		t.Errorf("the dialer waited %d times, expected 3 or more", waits)
	}
}

// TestStoppedListener: the error of a dial names a listener that a signal has stopped,
// whichever end comes first: that of the handshake's time or that of the context.
func TestStoppedListener(t *testing.T) {
	ctx := testContext(t)
	path := filepath.Join(socketDir(t), "s")
	p := start(t, "listen", path)
	p.line(t)
	pid := p.cmd.Process.Pid
	if still := local.Standstill(ipc.Peer{PID: pid}); still != "" {
		t.Errorf("%q, of a process that goes on", still)
	}
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("process %d is stopped by a signal: kill -CONT %d lets it go on", pid, pid)
	for local.Standstill(ipc.Peer{PID: pid}) != want {
		if ctx.Err() != nil {
			t.Fatal("the process does not stop")
		}
	}
	for name, p := range map[string]ipc.Peer{
		"on another host": {PID: pid, Addr: "192.0.2.1:1"}, "that ended, whose number it has": {PID: pid, Start: 1}, "not known": {},
	} {
		if still := local.Standstill(p); still != "" {
			t.Errorf("%q, of a peer %s", still, name)
		}
	}
	for name, c := range map[string]struct{ context, handshake time.Duration }{
		"handshake": {time.Hour, 20 * time.Millisecond}, "context": {200 * time.Millisecond, time.Hour},
	} {
		ctx, cancel := context.WithTimeout(ctx, c.context)
		defer cancel()
		_, err := local.New().Dial(ctx, path, &ipc.Options{HandshakeTimeout: c.handshake})
		if !errors.Is(err, os.ErrDeadlineExceeded) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, expected a deadline and %q", name, err, want)
		}
	}
}

// TestLateDialer: a dialer that has no processor before it says Hello tries again for as
// long as it may, however often it is hung up on meanwhile.
func TestLateDialer(t *testing.T) {
	ctx, cancel := context.WithCancel(testContext(t))
	defer cancel()
	path := filepath.Join(socketDir(t), "s")
	rude, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: path, Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	defer rude.Close()
	var met atomic.Int32
	go func() {
		for {
			c, err := rude.Accept()
			if err != nil {
				return
			}
			c.Close()
			if met.Add(1) > 2*local.UnheardTries {
				cancel()
			}
		}
	}()
	_, err = local.Stepping(func(step string) {
		if step == "dial: connected" {
			<-time.After(local.LateLeft)
		}
	}).Dial(ctx, path, &ipc.Options{HandshakeTimeout: 50 * time.Millisecond})
	if n := met.Load(); n <= 2*local.UnheardTries {
		t.Errorf("it gave up after %d connections: %v", n, err)
	}
}
