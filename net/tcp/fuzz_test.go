package tcp

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/encoding"
)

// FuzzGreeting has a stranger say anything to a listener: it is not let in.
func FuzzGreeting(f *testing.F) {
	h := helloOf(nil)
	var b bytes.Buffer
	g := newGreeter(&b, nil)
	_ = g.say(kindHello, h.append(nil))
	f.Add(b.Bytes())
	_ = g.say(kindProof, make([]byte, proofBytes))
	f.Add(b.Bytes())
	b.Reset()
	_ = g.say(kindHello, (&hello{bulk: true}).append(nil))
	f.Add(b.Bytes())
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	l := &listener{options: ipc.Options{Secret: []byte("s")}}
	f.Fuzz(func(t *testing.T, src []byte) {
		stranger := struct {
			io.Reader
			io.Writer
		}{bytes.NewReader(src), io.Discard}
		if _, _, err := l.admit(newGreeter(stranger, l.options.Secret)); err == nil {
			t.Fatalf("%q was let in", src)
		}
	})
}

// FuzzWelcome has a listener say anything to a dialer: it does not get past the proof.
func FuzzWelcome(f *testing.F) {
	var b bytes.Buffer
	g := newGreeter(&b, nil)
	_ = g.say(kindChallenge, make([]byte, nonceBytes))
	_ = g.say(kindWelcome, make([]byte, proofBytes+tokenBytes+1+50))
	f.Add(b.Bytes(), false)
	f.Add(b.Bytes(), true)
	b.Reset()
	m := encoding.Refuse{Version: encoding.Version, Reason: encoding.RefuseSecret, Text: "no"}
	_ = g.say(kindRefuse, encoding.AppendRefuse(nil, &m))
	f.Add(b.Bytes(), false)
	f.Fuzz(func(t *testing.T, src []byte, bulk bool) {
		h := helloOf(nil)
		h.bulk = bulk
		listener := struct {
			io.Reader
			io.Writer
		}{bytes.NewReader(src), io.Discard}
		if _, err := newGreeter(listener, []byte("s")).dial(h); err == nil {
			t.Fatalf("%q was believed", src)
		}
	})
}

// FuzzFrames has a peer that was let in send anything as messages: the conn works on or
// ends as corrupt, with every body within its limit, and what it holds is bounded by its
// window.
func FuzzFrames(f *testing.F) {
	f.Add(append(frameBytes(3, 5, 0, 3), frameBytes(0, bare, 0, 0)...))
	f.Add(append(frameBytes(0, hungry, 0, 0), frameBytes(1000, 1, 0, 1000)...))
	f.Add(frameBytes(1, 1, 7, 1))
	f.Add(bytes.Repeat(frameBytes(900, 1, 0, 900), 6))
	transport := New()
	o, _ := (*ipc.Options)(nil).WithDefaults()
	f.Fuzz(func(t *testing.T, src []byte) {
		ctx := testContext(t)
		c, messages := fuzzConn(t, transport, &o)
		// something that may be released
		if buf, err := c.Reserve(ctx, 1, 10); err == nil {
			clear(buf)
			_ = c.Commit()
		}
		_, _ = unix.Write(messages, src)
		_ = unix.Shutdown(messages, unix.SHUT_WR)
		for {
			m, err := c.Recv(ctx)
			if errors.Is(err, ipc.ErrCorrupt) || errors.Is(err, ipc.ErrPeerGone) {
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if len(m.Body) > c.limit || m.Kind > ipc.MaxKind {
				t.Fatalf("a message of %d bytes and kind %#x", len(m.Body), m.Kind)
			}
			c.Release()
		}
	})
}

// fuzzConn is a conn over pairs of unix sockets, which are quicker to have than
// connections and leave no ports behind.
func fuzzConn(t *testing.T, transport *Transport, o *ipc.Options) (c *conn, messages int) {
	var pairs [2][2]int
	for i := range pairs {
		var err error
		if pairs[i], err = unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { unix.Close(pairs[i][1]) })
	}
	again, err := unix.FcntlInt(uintptr(pairs[0][0]), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	c, err = transport.newConnOn([3]int{pairs[0][0], again, pairs[1][0]}, [2]*sealed{}, streams{}, ipc.Peer{Name: "fuzz", Addr: "fuzz"}, ipc.MinRingBytes, o, ipc.NewWarnings(o.Logger))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c, pairs[0][1]
}
