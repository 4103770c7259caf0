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

// samples returns one of each message that lists its fields.
func samples() []walker {
	return []walker{
		&joining{1, 2, 3}, &welcome{[runBytes]byte{7}}, &values{[]byte("one"), nil},
		&request{key: "key", value: []byte("value"), delta: 3, timeout: 1000, rank: 1, size: 4},
		&failure{codeMissing, "text", []int{1, 2}},
	}
}

// FuzzFields: messages are parsed without a panic, and come out as they went in.
func FuzzFields(f *testing.F) {
	for k, m := range samples() {
		f.Add(byte(k), encode(m))
	}
	f.Fuzz(func(t *testing.T, k byte, b []byte) {
		all, again := samples(), samples()
		m, n := all[int(k)%len(all)], again[int(k)%len(all)]
		err := parse(b, m)
		if err != nil && !errors.Is(err, ErrProtocol) {
			t.Errorf("%q as %T: %v", b, m, err)
		}
		if err != nil {
			return
		}
		once := encode(m)
		if err := parse(once, n); err != nil || !bytes.Equal(encode(n), once) {
			t.Errorf("%q as %T became %q, and that %+v, %v", b, m, once, n, err)
		}
	})
}

// TestFields: every message comes out as it went in, and no part of it is taken for it.
func TestFields(t *testing.T) {
	for k, m := range samples() {
		b := encode(m)
		if err := parse(b, m); err != nil || !bytes.Equal(encode(m), b) {
			t.Errorf("%T: %q became %q, %v", m, b, encode(m), err)
		}
		for n := range b {
			if err := parse(b[:n], samples()[k]); !errors.Is(err, ErrProtocol) {
				t.Errorf("%T: %d of %d bytes: %v", m, n, len(b), err)
			}
		}
		if err := parse(append(b, 0), samples()[k]); !errors.Is(err, ErrProtocol) {
			t.Errorf("%T with a byte too many: %v", m, err)
		}
	}
}

// TestProofs: a join and a welcome without the secret are told apart, and so is another
// version.
func TestProofs(t *testing.T) {
	secret, guess := []byte("secret"), []byte("guess")
	join := proven(&joining{1, 2, 3}, guess, labelJoin)
	var j joining
	if err := parseProven(join, &j, guess, labelJoin); err != nil {
		t.Error(err)
	}
	if err := parseProven(join, &j, secret, labelJoin); !errors.Is(err, ErrSecret) || j != (joining{1, 2, 3}) {
		t.Errorf("a join with another secret: %+v, %v", j, err)
	}
	if err := parseProven(join, &j, guess, labelWelcome); !errors.Is(err, ErrSecret) {
		t.Errorf("the proof of another message: %v", err)
	}
	join[0]++
	if err := parseProven(join, &j, guess, labelJoin); !errors.Is(err, ErrProtocol) {
		t.Errorf("a join of another version: %v", err)
	}
	if err := parseProven(nil, &j, guess, labelJoin); !errors.Is(err, ErrProtocol) {
		t.Errorf("nothing at all: %v", err)
	}
}

// FuzzServer: a caller that sends anything, before it joins or as a member of the world,
// ends at most its own connection.
func FuzzServer(f *testing.F) {
	var all []byte
	for k := kindSet; k <= kindGather; k++ {
		q := encode(&request{key: "world/1", value: []byte("v"), rank: 1, size: 2})
		all = append(append(all, byte(k), byte(len(q))), q...)
	}
	f.Add(all, true)
	f.Add([]byte{byte(kindWelcome), 0, byte(kindBye), 0}, true)
	f.Add(append([]byte{byte(kindJoin), 52}, proven(&joining{0, 2, 0}, nil, labelJoin)...), false)
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
