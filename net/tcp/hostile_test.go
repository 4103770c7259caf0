package tcp

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/encoding"
)

func testContext(t testing.TB) context.Context {
	// ends a test that hangs
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// listen opens a listener whose conns to peers without checksums have none, so that these
// can send anything.
func listen(t testing.TB, o *ipc.Options) *listener {
	t.Helper()
	l, err := NewUnchecked().Listen("127.0.0.1:0", o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l.(*listener)
}

// rawDial connects without a greeting.
func rawDial(t testing.TB, l *listener) *net.TCPConn {
	t.Helper()
	c, err := net.Dial("tcp", l.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(30 * time.Second))
	return c.(*net.TCPConn)
}

// works checks that the listener is as good as new.
func (l *listener) works(t testing.TB, ctx context.Context) {
	t.Helper()
	a, err := New().Dial(ctx, l.Addr(), &ipc.Options{Secret: l.options.Secret})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	b, err := l.Accept(ctx)
	if err != nil {
		t.Fatal(err)
	}
	b.Close()
}

// helloOf is a proper first greeting.
func helloOf(o *ipc.Options) *hello {
	c, _ := o.WithDefaults()
	m := c.Introduce(0)
	return &hello{wire: encoding.AppendHello(nil, &m)}
}

// TestStrangers: callers that do not speak the protocol are told so, counted, and hold up
// no peer.
func TestStrangers(t *testing.T) {
	ctx := testContext(t)
	l := listen(t, &ipc.Options{Secret: []byte("s")})
	greeting := func(kind uint8, fields []byte) []byte {
		var b bytes.Buffer
		if err := newGreeter(&b, nil).say(kind, fields); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	good := helloOf(nil)
	future := good.append(nil)
	binary.LittleEndian.PutUint32(future, 77)
	for i, c := range []struct {
		what   string
		sent   []byte
		answer string
	}{
		{"another protocol", []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), "expects a greeting of ringside"},
		{"a long greeting", append([]byte(greetingMagic), 0, 0, 0, 64), "greeting of 1073741824 bytes"},
		{"an empty greeting", append([]byte(greetingMagic), 0, 0, 0, 0), "greeting of 0 bytes"},
		{"another kind", greeting(kindProof, make([]byte, proofBytes)), "kind 3"},
		{"no fields", greeting(kindHello, nil), "hello of 0 bytes"},
		{"another version", greeting(kindHello, future), "version 77 of the transport, this is 3"},
		{"another purpose", greeting(kindHello, append(append(make([]byte, 0, 99), version, 0, 0, 0), make([]byte, nonceBytes+1)...)), "purpose 0"},
		{"a short token", greeting(kindHello, (&hello{bulk: true}).append(nil)[:4+nonceBytes+1+tokenBytes-1]), "purpose 2 with 15 bytes"},
		{"no Hello", greeting(kindHello, (&hello{wire: []byte("RSIDxxxxxxxx")}).append(nil)), "malformed"},
	} {
		conn := rawDial(t, l)
		if _, err := conn.Write(c.sent); err != nil {
			t.Fatal(err)
		}
		answer, err := io.ReadAll(conn)
		if err != nil || !strings.Contains(string(answer), c.answer) {
			t.Errorf("%s: %q, %v; expected %q", c.what, answer, err, c.answer)
		}
		if n := l.Refused(); n != uint64(i+1) {
			t.Errorf("%s: %d refused, expected %d", c.what, n, i+1)
		}
	}
	l.works(t, ctx)
}

func TestSecrets(t *testing.T) {
	ctx := testContext(t)
	l := listen(t, &ipc.Options{Secret: []byte("ours")})
	for _, secret := range []string{"", "other", "ourss"} {
		_, err := New().Dial(ctx, l.Addr(), &ipc.Options{Secret: []byte(secret)})
		if !errors.Is(err, ipc.ErrSecret) || !errors.Is(err, ipc.ErrRefused) {
			t.Errorf("secret %q: %v", secret, err)
		}
	}
	if l.Refused() != 3 {
		t.Errorf("%d refused, expected 3", l.Refused())
	}
	l.works(t, ctx)
	if _, err := New().Listen("0.0.0.0:0", nil); !errors.Is(err, ipc.ErrBadOption) {
		t.Errorf("everywhere and without a secret: %v", err)
	}
	far, err := New().Listen("[::]:0", &ipc.Options{Secret: []byte("ours")})
	if err != nil {
		t.Fatal(err)
	}
	far.Close()
}

// TestProofOfAnother: a proof that was seen on one connection is worth nothing on
// another.
func TestProofOfAnother(t *testing.T) {
	l := listen(t, &ipc.Options{Secret: []byte("s")})
	h := helloOf(nil)
	var proofs [2][]byte
	for i := range proofs {
		conn := rawDial(t, l)
		g := newGreeter(conn, []byte("s"))
		// the same nonce each time
		if err := g.say(kindHello, h.append(nil)); err != nil {
			t.Fatal(err)
		}
		if _, err := g.answer(kindChallenge); err != nil {
			t.Fatal(err)
		}
		proof := prove(g.secret, dialerLabel, g.seen.Sum(nil), nil)
		proofs[i] = proof[:]
		if err := g.say(kindProof, proofs[0]); err != nil {
			t.Fatal(err)
		}
		_, err := g.answer(kindWelcome)
		if wrong := errors.Is(err, ipc.ErrSecret); wrong != (i == 1) {
			t.Errorf("connection %d: %v", i, err)
		}
	}
	if bytes.Equal(proofs[0], proofs[1]) {
		t.Error("two connections have the same proof")
	}
}

// TestFalseListener: what listens there but does not know the secret, or speaks something
// else, or says nothing.
func TestFalseListener(t *testing.T) {
	serve := func(t *testing.T, do func(c *net.TCPConn)) string {
		nl, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { nl.Close() })
		go func() {
			for {
				c, err := nl.Accept()
				if err != nil {
					return
				}
				go func() {
					defer c.Close()
					do(c.(*net.TCPConn))
				}()
			}
		}()
		return nl.Addr().String()
	}
	pretend := func(after func(g *greeter)) func(c *net.TCPConn) {
		return func(c *net.TCPConn) {
			g := newGreeter(c, []byte("not yours"))
			_, _, _ = g.hear()
			_ = g.say(kindChallenge, make([]byte, nonceBytes))
			_, _, _ = g.hear()
			after(g)
			_, _ = io.Copy(io.Discard, c)
		}
	}
	for _, c := range []struct {
		what string
		do   func(c *net.TCPConn)
		want error
	}{
		{"another protocol", func(c *net.TCPConn) {
			_, _ = c.Write([]byte("220 mail.example ESMTP\r\n"))
			_, _ = io.Copy(io.Discard, c)
		}, ipc.ErrNotRingside},
		{"an echo", func(c *net.TCPConn) { _, _ = io.Copy(c, c) }, ipc.ErrCorrupt},
		{"hangs up", func(c *net.TCPConn) {}, ipc.ErrPeerGone},
		{"silence", func(c *net.TCPConn) { _, _ = io.Copy(io.Discard, c) }, os.ErrDeadlineExceeded},
		{"a wrong proof", pretend(func(g *greeter) {
			w := welcome{wire: []byte("x")}
			_ = g.say(kindWelcome, w.append(nil, false))
		}), ipc.ErrSecret},
		{"a short welcome", pretend(func(g *greeter) { _ = g.say(kindWelcome, []byte("x")) }), ipc.ErrCorrupt},
		{"a broken refusal", pretend(func(g *greeter) { _ = g.say(kindRefuse, []byte("x")) }), ipc.ErrCorrupt},
	} {
		addr := serve(t, c.do)
		timeout := 20 * time.Second
		if errors.Is(c.want, os.ErrDeadlineExceeded) {
			timeout = 300 * time.Millisecond
		}
		_, err := New().Dial(testContext(t), addr, &ipc.Options{Secret: []byte("s"), HandshakeTimeout: timeout})
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), addr) {
			t.Errorf("%s: %v, expected %v", c.what, err, c.want)
		}
	}
}

// begun is a connection on which the first byte of the greetings has been sent.
type begun struct {
	net.Conn
	past bool // that byte
}

func (b *begun) Write(p []byte) (int, error) {
	if b.past {
		return b.Conn.Write(p)
	}
	b.past = true
	n, err := b.Conn.Write(p[1:])
	return n + 1, err
}

// begin connects from an address of this host, and sends the first byte of a greeting.
func begin(t testing.TB, l *listener, from string) *net.TCPConn {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	c, err := d.Dial("tcp", l.Addr())
	if err == nil {
		_, err = c.Write([]byte(greetingMagic)[:1])
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c.(*net.TCPConn)
}

// goesOn checks that the listener has not hung up on a connection.
func goesOn(t testing.TB, what string, c *net.TCPConn) {
	t.Helper()
	_ = c.SetReadDeadline(time.Unix(1, 0))
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("%s: %v, expected nothing", what, err)
	}
}

// TestFirstByte checks that a stranger that says nothing is hung up on long before its
// handshake's time is over, if many others are being greeted, which have said something.
func TestFirstByte(t *testing.T) {
	l := listen(t, &ipc.Options{HandshakeTimeout: time.Hour})
	var slow []*net.TCPConn
	for range fewSilent {
		slow = append(slow, begin(t, l, "127.0.0.1"))
	}
	if _, err := rawDial(t, l).Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("a silent stranger: %v, expected its end", err)
	}
	for i, c := range slow {
		goesOn(t, fmt.Sprintf("stranger %d, which has begun", i), c)
	}
}

// TestKnownHosts has a peer of a host that has proved the secret before be in the middle
// of its handshake while 1,200 strangers come, each of another host: it gets in.
func TestKnownHosts(t *testing.T) {
	ctx := testContext(t)
	secret := []byte("s")
	l := listen(t, &ipc.Options{HandshakeTimeout: time.Hour, Secret: secret})
	l.works(t, ctx)
	peer := begin(t, l, "127.0.0.1")
	for i := range 1200 {
		begin(t, l, fmt.Sprintf("127.0.%d.%d", 2+i/250, 1+i%250))
	}
	l.works(t, ctx)
	if _, err := newGreeter(&begun{Conn: peer}, secret).dial(helloOf(nil)); err != nil {
		t.Errorf("a peer of a host that is known: %v", err)
	}
	for i := range maxKnown + 10 {
		l.remember(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}))
	}
	if n := len(l.known); n != maxKnown || l.known[0] != netip.AddrFrom4([4]byte{10, 0, 0, 10}) {
		t.Errorf("%d hosts are known, the oldest is %v; expected %d, 10.0.0.10", n, l.known[0], maxKnown)
	}
}

// TestSilentStrangers checks that as many slow connections as are greeted at a time keep
// no peer waiting: the oldest ends, and only that one.
func TestSilentStrangers(t *testing.T) {
	ctx := testContext(t)
	l := listen(t, &ipc.Options{HandshakeTimeout: time.Hour})
	var silent []*net.TCPConn
	for range maxHandshakes {
		silent = append(silent, begin(t, l, "127.0.0.1"))
	}
	l.works(t, ctx)
	if _, err := silent[0].Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the oldest stranger: %v, expected its end", err)
	}
	for i, c := range silent[1:] {
		goesOn(t, fmt.Sprintf("stranger %d", 1+i), c)
	}
}

// TestStrangersOfOneHost has 1,200 slow connections of one host come while a peer of
// another host is in the middle of its handshake: that peer gets in, and so does another
// of its host.
func TestStrangersOfOneHost(t *testing.T) {
	ctx := testContext(t)
	l := listen(t, &ipc.Options{HandshakeTimeout: time.Hour})
	peer := begin(t, l, "127.0.0.1")
	from := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	for range 1200 {
		c, err := from.DialContext(ctx, "tcp", l.Addr())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	l.works(t, ctx)
	if _, err := newGreeter(&begun{Conn: peer}, nil).dial(helloOf(nil)); err != nil {
		t.Errorf("a peer that came before the strangers of another host: %v", err)
	}
}

// TestReturningStrangers has more connections of one host than are greeted at a time,
// each of which comes back at once when it is ended. None of them is ended before it had
// its time, so peers of that host get in.
func TestReturningStrangers(t *testing.T) {
	ctx := testContext(t)
	l := listen(t, &ipc.Options{HandshakeTimeout: time.Hour})
	var returning sync.WaitGroup
	stop := make(chan struct{})
	for range maxHandshakes + 200 {
		returning.Go(func() {
			for {
				began := time.Now()
				c, err := net.Dial("tcp", l.Addr())
				if err != nil {
					return // the listener is closed
				}
				end := context.AfterFunc(ctx, func() { c.Close() })
				_, _ = c.Read(make([]byte, 1))
				c.Close()
				end()
				select {
				case <-stop:
					return
				default:
				}
				if lived := time.Since(began); lived < leastGreeting {
					t.Errorf("a stranger was ended after %v, expected at least %v", lived, leastGreeting)
					return
				}
			}
		})
	}
	for full := false; !full; {
		if ctx.Err() != nil {
			t.Fatal("so many strangers are never greeted at once")
		}
		full = max(l.strangers.Len(), l.familiar.Len()) == maxHandshakes
	}
	for range 3 {
		l.works(t, ctx)
	}
	close(stop)
	l.Close() // this ends all of them
	returning.Wait()
}

// TestStrangersOfManyHosts checks that 1,200 silent connections, each of another host,
// keep no peer out that knows the secret.
func TestStrangersOfManyHosts(t *testing.T) {
	ctx := testContext(t)
	l := listen(t, &ipc.Options{HandshakeTimeout: time.Hour, Secret: []byte("s")})
	for i := range 1200 {
		from := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, byte(2+i/250), byte(1+i%250))}}
		c, err := from.DialContext(ctx, "tcp", l.Addr())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	l.works(t, ctx)
}

// TestSlowStrangers: more connections than are greeted at a time say nothing, or as
// little as they can; they are hung up on, and a proper peer gets in.
func TestSlowStrangers(t *testing.T) {
	ctx := testContext(t)
	l := listen(t, &ipc.Options{HandshakeTimeout: 1500 * time.Millisecond})
	var slow []*net.TCPConn
	for i := range maxHandshakes + 10 {
		c := rawDial(t, l)
		if i%2 == 0 {
			_, _ = c.Write([]byte(greetingMagic)[:i%4])
		}
		slow = append(slow, c)
	}
	l.works(t, ctx)
	for _, c := range slow {
		if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal("a stranger was not hung up on")
		}
	}
}

// TestBulkSockets: a bulk socket belongs to one conn, once, and a conn without one does
// not come to be.
func TestBulkSockets(t *testing.T) {
	ctx := testContext(t)
	o, _ := (*ipc.Options)(nil).WithDefaults()
	l := listen(t, &ipc.Options{HandshakeTimeout: 2 * time.Second})
	unknown := hello{bulk: true}
	if _, _, err := connect(ctx, l.Addr(), &o, &unknown); !errors.Is(err, ipc.ErrRefused) {
		t.Errorf("a token of no conn: %v", err)
	}
	messages, w, err := connect(ctx, l.Addr(), &o, helloOf(nil))
	if err != nil {
		t.Fatal(err)
	}
	defer messages.Close()
	if c, ok := l.TryAccept(); ok {
		t.Fatalf("a conn without a bulk socket: %v", c.Peer())
	}
	bulk, _, err := connect(ctx, l.Addr(), &o, &hello{bulk: true, token: w.token})
	if err != nil {
		t.Fatal(err)
	}
	defer bulk.Close()
	c, err := l.Accept(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, _, err := connect(ctx, l.Addr(), &o, &hello{bulk: true, token: w.token}); !errors.Is(err, ipc.ErrRefused) {
		t.Errorf("a token for the second time: %v", err)
	}
	late, _, err := connect(ctx, l.Addr(), &o, helloOf(nil))
	if err != nil {
		t.Fatal(err)
	}
	defer late.Close()
	_ = late.SetReadDeadline(time.Now().Add(30 * time.Second))
	if _, err := late.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the socket of a conn that never got its bulk socket: %v", err)
	}
}

// half is a conn of which the test plays the dialer, on bare sockets.
type half struct {
	conn           *conn
	messages, bulk greeted
}

func newHalf(t testing.TB, ctx context.Context, l *listener) half {
	t.Helper()
	o, _ := (&ipc.Options{Secret: l.options.Secret}).WithDefaults()
	messages, w, err := connect(ctx, l.Addr(), &o, helloOf(nil))
	if err != nil {
		t.Fatal(err)
	}
	bulk, _, err := connect(ctx, l.Addr(), &o, &hello{bulk: true, token: w.token})
	if err != nil {
		t.Fatal(err)
	}
	c, err := l.Accept(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []greeted{messages, bulk} {
		_ = s.SetDeadline(time.Now().Add(30 * time.Second))
	}
	t.Cleanup(func() {
		messages.Close()
		bulk.Close()
		c.Close()
	})
	return half{c.(*conn), messages, bulk}
}

func frameBytes(length int, kind, released uint32, body int) []byte {
	var h [frameHeader]byte
	frame{length: uint32(length), kind: kind, released: released}.put(&h, &stream{})
	return append(h[:], make([]byte, body)...)
}

// TestBadFrames: each is the end of the conn, which says why.
func TestBadFrames(t *testing.T) {
	const ringBytes = ipc.MinRingBytes
	limit := ipc.MessageLimit(ringBytes)
	l := listen(t, &ipc.Options{RingBytes: ringBytes})
	for _, c := range []struct {
		what string
		sent []byte
		says string
	}{
		{"a long body", frameBytes(limit+1, 1, 0, 0), "1025 bytes"},
		{"a huge body", frameBytes(1<<32-1, 1, 0, 0), "4294967295 bytes"},
		{"another kind", frameBytes(0, ipc.MaxKind+1, 0, 0), "kind 0x1000000"},
		{"a count with a body", frameBytes(1, bare, 0, 1), "kind 0x80000000"},
		{"released without a message", frameBytes(0, bare, 1, 0), "1 messages released"},
		{"released backwards", frameBytes(0, bare, 1<<32-1, 0), "released"},
		{"more than the window", bytes.Repeat(frameBytes(limit, 7, 0, limit), 100), "more in flight"},
	} {
		t.Run(c.what, func(t *testing.T) {
			ctx := testContext(t)
			h := newHalf(t, ctx, l)
			// No message is released, and the other end may hang up meanwhile.
			_, _ = h.messages.Write(append(frameBytes(3, 5, 0, 3), c.sent...))
			if err := h.conn.data.Wait(ctx, func() bool { return h.conn.Err() != nil }); err != nil {
				t.Fatal(err)
			}
			_, _, err := h.conn.TryRecv()
			if !errors.Is(err, ipc.ErrCorrupt) || !strings.Contains(err.Error(), c.says) || !errors.Is(h.conn.Err(), ipc.ErrCorrupt) {
				t.Errorf("%v, expected %q", err, c.says)
			}
			if _, err := h.conn.TryReserve(1, 1); !errors.Is(err, ipc.ErrCorrupt) {
				t.Errorf("TryReserve: %v", err)
			}
		})
	}
}

// TestCutFrame: a peer that hangs up within a message is gone, and the half message is
// dropped.
func TestCutFrame(t *testing.T) {
	ctx := testContext(t)
	l := listen(t, nil)
	for n := range frameHeader + 5 {
		h := newHalf(t, ctx, l)
		if _, err := h.messages.Write(append(frameBytes(2, 9, 0, 2), frameBytes(6, 1, 0, 6)[:n]...)); err != nil {
			t.Fatal(err)
		}
		h.messages.Close()
		if m, err := h.conn.Recv(ctx); err != nil || m.Kind != 9 || len(m.Body) != 2 {
			t.Fatalf("%d bytes: %+v, %v", n, m, err)
		}
		h.conn.Release()
		if _, err := h.conn.Recv(ctx); !errors.Is(err, ipc.ErrPeerGone) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}

// TestBadTransfer: a bulk socket with something else in it is a broken protocol.
func TestBadTransfer(t *testing.T) {
	ctx := testContext(t)
	l := listen(t, nil)
	for what, b := range map[string][]byte{
		"zeros":      make([]byte, bulkHeader),
		"text":       []byte("a bulk transfer, I believe, it is"),
		"a negative": append(binary.LittleEndian.AppendUint64(append(binary.LittleEndian.AppendUint32(nil, bulkMagic), make([]byte, 8)...), 1<<63), make([]byte, 4)...),
	} {
		h := newHalf(t, ctx, l)
		if _, err := h.bulk.Write(b); err != nil {
			t.Fatal(err)
		}
		if err := h.conn.BeginRecv(0, make([]byte, 100)); err != nil {
			t.Fatal(err)
		}
		var err error
		if errWait := h.conn.data.Wait(ctx, func() bool {
			_, _, err = h.conn.ProgressRecv()
			return err != nil
		}); errWait != nil || !errors.Is(err, ipc.ErrCorrupt) {
			t.Errorf("%s: %v, %v", what, err, errWait)
		}
	}
}
