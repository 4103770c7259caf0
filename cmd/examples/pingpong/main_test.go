package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/ringside-go/ringside/ring"
)

// TestMain makes the test binary the child.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == childArg {
		main()
		return
	}
	os.Exit(m.Run())
}

// TestPingPong runs both processes, with more rounds than a ring holds.
func TestPingPong(t *testing.T) {
	const rounds = 3 * capacity / 16
	var out strings.Builder
	if err := parent(&out, rounds); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(out.String(), fmt.Sprint(rounds, " round trips, ")) || !strings.HasSuffix(out.String(), fmt.Sprintf("is %d\n", rounds)) {
		t.Errorf("%q", &out)
	}
}

// TestGone: a process that waits for one that is gone learns it, and has received all
// that was sent.
func TestGone(t *testing.T) {
	mem := make([]byte, size)
	if err := errors.Join(ring.Init(mem[there:back]), ring.Init(mem[back:size]),
		ring.InitBell(mem[:ring.BellSize]), ring.InitBell(mem[ring.BellSize:2*ring.BellSize])); err != nil {
		t.Fatal(err)
	}
	a, err := newEnd(mem[there:back], mem[back:size], mem[:ring.BellSize], mem[ring.BellSize:2*ring.BellSize])
	if err != nil {
		t.Fatal(err)
	}
	b, err := newEnd(mem[back:size], mem[there:back], mem[ring.BellSize:2*ring.BellSize], mem[:ring.BellSize])
	if err != nil {
		t.Fatal(err)
	}
	if err := b.send(7); err != nil {
		t.Fatal(err)
	}
	a.gone.Store(true)
	if n, err := a.receive(); n != 7 || err != nil {
		t.Errorf("%d, %v; expected the 7 that was sent", n, err)
	}
	if n, err := a.receive(); !errors.Is(err, errGone) {
		t.Errorf("%d, %v; expected that it is gone", n, err)
	}
	for err = nil; err == nil; {
		err = a.send(1)
	}
	if !errors.Is(err, errGone) {
		t.Errorf("into a full ring: %v", err)
	}
}
