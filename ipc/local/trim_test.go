package local_test

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/local"
)

// resident returns how many bytes of a conn's segment are in memory, as far as this
// end's mapping shows. The segment holds two rings.
func resident(t *testing.T, c ipc.Conn) (n int) {
	t.Helper()
	rings, _ := local.Memory(c)
	smaps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut("\n"+string(smaps), "\n"+strings.TrimPrefix(fmt.Sprintf("%p", &rings[0]), "0x")+"-")
	_, rest, ok := strings.Cut(rest, "\nRss:")
	if _, err := fmt.Sscan(rest, &n); !found || !ok || err != nil {
		t.Fatalf("no mapping at %p in smaps: %v", &rings[0], err)
	}
	return n << 10
}

// TestIdleConnTakesLittleMemory wants a conn's queues to take memory when messages are
// in them, and to give it back when Trim has found two times that none were.
func TestIdleConnTakesLittleMemory(t *testing.T) {
	ctx := testContext(t)
	l, path := listen(t, nil)
	a, err := local.New().Dial(ctx, path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	b := accept(t, ctx, l)
	defer b.Close()
	few := 8 * os.Getpagesize()
	is := func(when string, least, most int) {
		t.Helper()
		for name, c := range map[string]ipc.Conn{"dialer": a, "listener": b} {
			if n := resident(t, c); n < least || n > most {
				t.Errorf("%s: %d bytes of the %s's queues are in memory, expected %d to %d", when, n, name, least, most)
			}
		}
	}
	trim := func() {
		for _, c := range []ipc.Conn{a, b} {
			ipc.Trim(c)
		}
	}
	// pass sends so many messages one way and back.
	pass := func(messages int) {
		t.Helper()
		body := bytes.Repeat([]byte{7}, ipc.MaxMessage/2)
		for range messages {
			for _, ends := range [][2]ipc.Conn{{a, b}, {b, a}} {
				if err := ipc.Send(ctx, ends[0], ipc.Message{Kind: 1, Body: body}); err != nil {
					t.Fatal(err)
				}
				m, err := ends[1].Recv(ctx)
				if err != nil || !bytes.Equal(m.Body, body) {
					t.Fatalf("%d bytes, %v", len(m.Body), err)
				}
				ends[1].Release()
				if _, ok, err := ends[1].TryRecv(); ok || err != nil {
					t.Fatal(ok, err)
				}
			}
		}
	}
	is("a new conn", 1, few)
	for round := range 3 {
		pass(20)
		is("after messages", 2*ipc.DefaultRingBytes*3/4, 3*ipc.DefaultRingBytes)
		trim()
		is("after one look", 2*ipc.DefaultRingBytes*3/4, 3*ipc.DefaultRingBytes)
		trim()
		is(fmt.Sprintf("after two looks, round %d", round), 1, few)
	}
	// A message that the peer has not received stays.
	body := bytes.Repeat([]byte{9}, ipc.MaxMessage)
	if err := ipc.Send(ctx, a, ipc.Message{Kind: 1, Body: body}); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		trim()
	}
	if m, err := b.Recv(ctx); err != nil || !bytes.Equal(m.Body, body) {
		t.Errorf("a message in the queue after Trim: %d bytes, %v", len(m.Body), err)
	}
	b.Release()
	a.Close()
	trim()
}
