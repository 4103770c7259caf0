package ipctest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/ringside-go/ringside/ipc"
)

// testListener: TryAccept, and the Waiter's news of a conn.
func testListener(t *testing.T, f *fixture) {
	w := f.waiter()
	l := f.listen(&ipc.Options{Waiter: w})
	if c, ok := l.TryAccept(); ok {
		t.Fatalf("TryAccept without a dialer: %v", c.Peer())
	}
	if !f.Transport.Reaches(l.Addr()) {
		t.Errorf("%s does not reach its own listener's address %q", f.Transport.Name(), l.Addr())
	}
	for i := range 3 {
		wait := spawn(func() error {
			c, err := f.Transport.Dial(f.ctx, l.Addr(), nil)
			if err != nil {
				return err
			}
			defer c.Close()
			return send(f.ctx, c, uint32(i), 10)
		})
		var b ipc.Conn
		f.must(w.Wait(f.ctx, func() bool {
			var ok bool
			b, ok = l.TryAccept()
			return ok
		}))
		f.expect(b, uint32(i), 10)
		f.must(wait())
		f.must(b.Close())
	}
}

// testListenerCloses: conns that were accepted live on, those that were not do not, and
// the address is free.
func testListenerCloses(t *testing.T, f *fixture) {
	l, err := f.Transport.Listen(f.Addr(), nil)
	f.must(err)
	a := f.dial(l, nil)
	b := f.accept(l)
	left := f.dial(l, nil)
	f.must(l.Close())
	f.must(l.Close())
	_, err = l.Accept(f.ctx)
	f.is("Accept", err, net.ErrClosed)
	if _, ok := l.TryAccept(); ok {
		t.Error("TryAccept after Close")
	}
	_, err = left.Recv(f.ctx)
	f.is("Recv of a conn that was never accepted", err, ipc.ErrPeerGone)
	f.send(a, 1, 10)
	f.expect(b, 1, 10)
	_, err = f.Transport.Dial(f.ctx, l.Addr(), nil)
	f.is("Dial", err, ipc.ErrNoListener)

	again, err := f.Transport.Listen(l.Addr(), nil)
	f.must(err)
	wait := spawn(func() error { _, err := again.Accept(f.ctx); return err })
	f.must(again.Close())
	f.is("Accept during Close", wait(), net.ErrClosed)
}

func testAddrInUse(t *testing.T, f *fixture) {
	l := f.listen(nil)
	_, err := f.Transport.Listen(l.Addr(), nil)
	if !errors.Is(err, ipc.ErrAddrInUse) || !strings.Contains(err.Error(), l.Addr()) {
		t.Errorf("Listen at %s: %v", l.Addr(), err)
	}
	f.works(l) // it is not disturbed
}

// works has a message sent to a listener through a new conn.
func (f *fixture) works(l ipc.Listener) {
	f.t.Helper()
	a := f.dial(l, nil)
	f.send(a, 1, 1)
	f.expect(f.accept(l), 1, 1)
}

func testNoListener(t *testing.T, f *fixture) {
	addr := f.Addr()
	_, err := f.Transport.Dial(f.ctx, addr, nil)
	f.is("Dial", err, ipc.ErrNoListener)
	if n := strings.Count(fmt.Sprint(err), addr); n != 1 {
		t.Errorf("%v names the address %d times, expected once", err, n)
	}
}

func testVersion(t *testing.T, f *fixture) {
	l := f.listen(nil)
	_, err := f.Transport.Dial(f.ctx, l.Addr(), &ipc.Options{Hello: ipc.Peer{Version: 99999}})
	if !errors.Is(err, ipc.ErrVersion) || !errors.Is(err, ipc.ErrRefused) || !strings.Contains(err.Error(), "99999") {
		t.Errorf("Dial: %v", err)
	}
	if _, ok := l.TryAccept(); ok {
		t.Error("the refused conn was accepted")
	}
	f.works(l)
}

func testOptions(_ *testing.T, f *fixture) {
	l := f.listen(nil)
	for _, o := range []ipc.Options{
		{RingBytes: 1000}, {RingBytes: ipc.MinRingBytes / 2}, {RingBytes: ipc.MaxRingBytes * 2}, {RingBytes: -1},
		{HandshakeTimeout: -1}, {AllowGID: -1},
		{Hello: ipc.Peer{Name: strings.Repeat("x", 10000)}},
	} {
		_, err := f.Transport.Dial(f.ctx, l.Addr(), &o)
		f.is(fmt.Sprintf("Dial with %+v", o), err, ipc.ErrBadOption)
		_, err = f.Transport.Listen(f.Addr(), &o)
		f.is(fmt.Sprintf("Listen with %+v", o), err, ipc.ErrBadOption)
	}
}

// testListenAny checks that two listeners at addresses of the transport's choice are
// apart, and that the addresses lead to them.
func testListenAny(t *testing.T, f *fixture) {
	dir, err := os.MkdirTemp("", "rs") // short enough for a socket's path
	f.must(err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	var listeners []ipc.Listener
	var addrs []string
	for range 2 {
		l, at, err := f.Transport.ListenAny(ipc.Place{Dir: dir}, nil)
		f.must(err)
		t.Cleanup(func() { l.Close() })
		if len(at) == 0 {
			t.Fatal("no address")
		}
		listeners, addrs = append(listeners, l), append(addrs, at[0])
	}
	for i, addr := range addrs {
		if !f.Transport.Reaches(addr) {
			t.Errorf("does not reach its own %s", addr)
		}
		c, err := f.Transport.Dial(f.ctx, addr, nil)
		f.must(err)
		defer c.Close()
		f.accept(listeners[i])
		if f.Transport.SharesMemory() != c.Features().Files {
			t.Errorf("SharesMemory %v, features %+v", f.Transport.SharesMemory(), c.Features())
		}
	}
}

// testBacklog checks that peers wait while Backlog conns wait to be accepted: as long as
// their contexts let them.
func testBacklog(t *testing.T, f *fixture) {
	const backlog, more = 3, 5
	l := f.listen(&ipc.Options{Backlog: backlog})
	dialed := make(chan error, backlog+more)
	for range backlog + more {
		go func() {
			c, err := f.Transport.Dial(f.ctx, l.Addr(), nil)
			dialed <- err
			if err == nil {
				<-f.ctx.Done()
				c.Close()
			}
		}()
	}
	for range backlog {
		f.must(<-dialed)
	}
	ctx, cancel := context.WithCancel(f.ctx)
	given := make(chan error)
	go func() {
		_, err := f.Transport.Dial(ctx, l.Addr(), nil)
		given <- err
	}()
	select {
	case err := <-dialed:
		t.Fatalf("Dial with %d conns that wait to be accepted: %v, expected that it waits", backlog, err)
	case err := <-given:
		t.Fatalf("Dial with %d conns that wait to be accepted: %v, expected that it waits", backlog, err)
	default:
	}
	cancel()
	f.is("Dial that was given up", <-given, context.Canceled)
	for range backlog + more {
		f.accept(l)
	}
	for range more {
		f.must(<-dialed)
	}
	f.works(l)
}
