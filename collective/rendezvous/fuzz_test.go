package rendezvous

import (
	"bytes"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/ipctest"
)

// FuzzPieces checks that a message that is cut into pieces comes out as it went in, and
// that anything else is ErrProtocol and takes no more memory than came.
func FuzzPieces(f *testing.F) {
	f.Add([]byte("fields"), uint32(kindSet), 1000)
	f.Add([]byte{}, uint32(kindBye), 3)
	f.Add(bytes.Repeat([]byte("x"), 3*maxPiece), uint32(kindPiece), 2*maxPiece)
	f.Fuzz(func(t *testing.T, b []byte, kind uint32, limit int) {
		var in incoming
		got, whole, err := in.take(ipc.Message{Kind: kind, Body: b}, limit)
		if want := len(b) >= 4 && len(b)-4 <= limit; (err == nil) != want || err != nil && !errors.Is(err, ErrProtocol) {
			t.Fatalf("%d bytes, limit %d: %v", len(b), limit, err)
		}
		if err != nil {
			return
		}
		if whole != (kind != kindPiece) {
			t.Fatalf("kind %d: whole %v", kind, whole)
		}
		if whole && !bytes.Equal(got.fields, b[4:]) {
			t.Fatalf("%q became %q", b, got.fields)
		}
	})
}

// TestPieces sends messages of all sizes about a piece's through a conn that is often
// full.
func TestPieces(t *testing.T) {
	ctx := limited(t)
	a, b := pipe(t)
	sizes := []int{0, 1, maxPiece - 1, maxPiece, maxPiece + 1, 2 * maxPiece, 10*maxPiece + 7}
	sent := make(chan error, 1)
	go func() {
		for i, n := range sizes {
			m := outgoing{message: message{kindValue, uint32(i), bytes.Repeat([]byte{byte(i)}, n)}}
			if err := m.send(a, func(kind uint32, n int) ([]byte, error) { return a.Reserve(ctx, kind, n) }); err != nil {
				sent <- err
				return
			}
		}
		sent <- nil
	}()
	var in incoming
	for i, n := range sizes {
		for whole := false; !whole; {
			received, err := b.Recv(ctx)
			if err != nil {
				t.Fatal(err)
			}
			var m message
			if m, whole, err = in.take(received, 11*maxPiece); err != nil {
				t.Fatal(err)
			}
			b.Release()
			if whole && (m.kind != kindValue || m.id != uint32(i) || !bytes.Equal(m.fields, bytes.Repeat([]byte{byte(i)}, n))) {
				t.Errorf("message %d of %d bytes: kind %d, id %d, %d bytes", i, n, m.kind, m.id, len(m.fields))
			}
		}
	}
	if err := <-sent; err != nil {
		t.Error(err)
	}
}

// pipe returns the two ends of a conn in memory with a store's options.
func pipe(t *testing.T) (a, b ipc.Conn) {
	t.Helper()
	var network ipctest.Network
	lis, err := network.Listen("pipe:", &ipc.Options{RingBytes: ringBytes})
	if err != nil {
		t.Fatal(err)
	}
	defer lis.Close()
	if a, err = network.Dial(t.Context(), lis.Addr(), nil); err != nil {
		t.Fatal(err)
	}
	b, ok := lis.TryAccept()
	if !ok {
		t.Fatal("no conn was accepted")
	}
	t.Cleanup(func() {
		a.Close()
		b.Close()
	})
	return a, b
}

// FuzzFields: messages are parsed without a panic, and come out as they went in.
func FuzzFields(f *testing.F) {
	secret := []byte("secret")
	for k := kindSet; k <= kindGather; k++ {
		f.Add(byte(k), request{key: "key", value: []byte("value"), delta: 3, timeout: time.Second, rank: 1, size: 4}.append(nil, k))
	}
	f.Add(byte(kindError), failure{codeMissing, "text", []int{1, 2}}.append(nil))
	f.Add(byte(kindJoin), joining{1, 2, 3}.append(nil, secret))
	f.Add(byte(kindWelcome), appendWelcome(nil, secret, make([]byte, runBytes)))
	f.Fuzz(func(t *testing.T, k byte, b []byte) {
		same := func(what string, got []byte, err error) {
			if err == nil && !bytes.Equal(got, b) {
				t.Errorf("%s: %q became %q", what, b, got)
			}
		}
		q, err := parseRequest(uint32(k), b)
		same("a request", q.append(nil, uint32(k)), err)
		e, err := parseFailure(b)
		same("a failure", e.append(nil), err)
		j, err := parseJoining(b, secret)
		same("a join", j.append(nil, secret), err)
		run, err := parseWelcome(b, secret)
		same("a welcome", appendWelcome(nil, secret, run), err)
		vs, err := parseValues(b, int(k))
		var got []byte
		for _, v := range vs {
			got = appendBytes(got, v)
		}
		same("values", got, err)
	})
}

// TestProofs: a join and a welcome without the secret are told apart, and so is another
// version.
func TestProofs(t *testing.T) {
	join := joining{1, 2, 3}.append(nil, []byte("secret"))
	if j, err := parseJoining(join, []byte("guess")); !errors.Is(err, ErrSecret) || j != (joining{1, 2, 3}) {
		t.Errorf("a join with another secret: %+v, %v", j, err)
	}
	join[0]++
	if _, err := parseJoining(join, []byte("secret")); !errors.Is(err, ErrProtocol) {
		t.Errorf("a join of another version: %v", err)
	}
	welcome := appendWelcome(nil, []byte("guess"), make([]byte, runBytes))
	if _, err := parseWelcome(welcome, []byte("secret")); !errors.Is(err, ErrSecret) {
		t.Errorf("a welcome with another secret: %v", err)
	}
}

// FuzzServer: a caller that sends anything, before it joins or as a member of the world,
// ends at most its own connection.
func FuzzServer(f *testing.F) {
	var all []byte
	for k := kindSet; k <= kindGather; k++ {
		q := request{key: "world/1", value: []byte("v"), rank: 1, size: 2}
		all = append(all, byte(k), byte(len(q.append(nil, k))))
		all = append(all, q.append(nil, k)...)
	}
	f.Add(all, true)
	f.Add([]byte{byte(kindWelcome), 0, byte(kindBye), 0}, true)
	f.Add(append([]byte{byte(kindJoin), 52}, joining{0, 2, 0}.append(nil, nil)...), false)
	f.Fuzz(func(t *testing.T, script []byte, joins bool) {
		w := World{Size: 2}
		s, dial := served(t, w)
		hostile := dial()
		if joins {
			w.Rank = 1
			if _, err := join(limited(t), hostile, w); err != nil {
				t.Fatal(err)
			}
		}
		// The script is messages: a kind, a length, so many bytes of fields.
		for len(script) >= 2 && hostile.Err() == nil {
			n := min(int(script[1]), len(script)-2)
			m := outgoing{message: message{uint32(script[0]), 1, script[2 : 2+n]}}
			if m.send(hostile, func(kind uint32, n int) ([]byte, error) { return hostile.Reserve(limited(t), kind, n) }) != nil {
				break
			}
			script = script[2+n:]
		}
		hostile.Close()
		answers := make(chan message, 1)
		honest := s.host(func(m message) { answers <- m })
		s.request(honest, kindGet, 9, request{key: "never set"})
		if m := <-answers; m.id != 9 {
			t.Fatalf("the other rank got %+v", m)
		}
		s.close(time.Minute)
		if s.board.bytes < 0 || len(s.roster.here) > 1 {
			t.Errorf("left: %d bytes, ranks %v", s.board.bytes, s.roster.here)
		}
	})
}

// served starts a server over conns in memory. dial opens one to it.
func served(t *testing.T, w World) (s *server, dial func() ipc.Conn) {
	t.Helper()
	var network ipctest.Network
	waiter := ipc.NewWaiter()
	lis, err := network.Listen("pipe:", &ipc.Options{RingBytes: ringBytes, Waiter: waiter})
	if err != nil {
		t.Fatal(err)
	}
	s = newServer(w, slog.New(slog.DiscardHandler))
	s.start(lis, waiter)
	return s, func() ipc.Conn {
		c, err := network.Dial(t.Context(), lis.Addr(), nil)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
}
