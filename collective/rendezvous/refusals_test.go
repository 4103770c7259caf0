package rendezvous

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ringside-go/ringside/ipc/ipctest"
)

// TestHopeless: once every missing rank was refused for good, the ranks that wait learn
// it long before the deadline, and so does a rank that comes later. Callers that may come
// again, or that are no ranks, don't count.
func TestHopeless(t *testing.T) {
	var log ipctest.Log
	w := World{Size: 4, Socket: filepath.Join(socketDir(t), "s"), Secret: []byte("secret"), Epoch: 3}
	o := &Options{Timeout: time.Hour, Linger: -1, Logger: slog.New(slog.NewTextHandler(&log, nil))}
	open := func(change func(*World)) (*Store, error) {
		mine := w
		change(&mine)
		return Open(limited(t), mine, o)
	}
	var in []*Store
	t.Cleanup(func() { closeAll(in) })
	ended := make(chan error, w.Size)
	join := func(rank int) {
		t.Helper()
		s, err := open(func(w *World) { w.Rank = rank })
		if err != nil {
			t.Fatal(err)
		}
		in = append(in, s)
		go func() {
			_, err := s.AllGather(t.Context(), nil)
			ended <- err
		}()
	}
	refused := func(want error, change func(*World)) {
		t.Helper()
		if s, err := open(change); !errors.Is(err, want) {
			t.Fatalf("%v, %v; expected %v", s, err, want)
		}
	}
	failed := func(ranks ...int) {
		t.Helper()
		select {
		case err := <-ended:
			m := new(MissingError)
			if !errors.As(err, &m) || !slices.Equal(m.Ranks, ranks) ||
				!strings.Contains(m.Why, "rank 2 says that there are 5 ranks") || !strings.Contains(m.Why, ErrSecret.Error()) {
				t.Errorf("%v; expected that %v are missing, and why", err, ranks)
			}
		case <-time.After(guard):
			t.Fatal("the ranks that are in still wait")
		}
	}
	join(0)
	join(1)
	refused(ErrStale, func(w *World) { w.Rank, w.Epoch = 3, 2 })
	refused(ErrStale, func(w *World) { w.Rank, w.Epoch = 3, 2 })
	refused(ErrWorldSize, func(w *World) { w.Rank, w.Size = 2, 5 })
	// the same again is no other
	refused(ErrWorldSize, func(w *World) { w.Rank, w.Size = 2, 5 })
	select {
	case err := <-ended:
		t.Fatalf("rank 3 can still come: %v", err)
	default:
	}
	refused(ErrSecret, func(w *World) { w.Rank, w.Secret = 3, []byte("guess") })
	failed(2, 3)
	failed(2, 3)
	join(3) // it knows the secret after all, too late
	failed(2)
	for _, part := range []string{"there are 5 ranks", "epoch 2", "than rank 3 of 4"} {
		if !strings.Contains(log.String(), part) {
			t.Errorf("the log lacks %q: %s", part, log.String())
		}
	}
}

// TestDoubles: of two processes that have one rank the second can't be another.
func TestDoubles(t *testing.T) {
	w := World{Size: 3, Socket: filepath.Join(socketDir(t), "s")}
	stores := make([]*Store, 2)
	o := &Options{Timeout: time.Hour, Linger: -1}
	for r := range stores {
		mine := w
		mine.Rank = r
		var err error
		if stores[r], err = Open(limited(t), mine, o); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { closeAll(stores) })
	mine := w
	mine.Rank = 1
	if s, err := Open(limited(t), mine, o); !errors.Is(err, ErrDuplicateRank) {
		t.Fatalf("%v, %v", s, err)
	}
	if err := every(stores, func(_ int, s *Store) error {
		_, err := s.AllGather(limited(t), nil)
		if m := new(MissingError); !errors.As(err, &m) || !slices.Equal(m.Ranks, []int{2}) || !strings.Contains(m.Why, "rank 1 of 3 is connected already") {
			return errors.Join(errors.New("expected that rank 2 is missing, and why"), err)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

// TestStrangersEndNoStart: callers at a port that don't know the secret are logged and
// end nothing, whichever ranks they claim to be.
func TestStrangersEndNoStart(t *testing.T) {
	refused := make(chanWriter, 8)
	w := World{Size: 3, MasterAddr: "127.0.0.1", MasterPort: freePort(t), Secret: []byte("secret")}
	o := &Options{Timeout: time.Hour, Linger: -1, Logger: slog.New(slog.NewTextHandler(refused, nil))}
	in := make([]*Store, w.Size)
	t.Cleanup(func() { closeAll(in) })
	open := func(rank int, secret string) (err error) {
		mine := w
		mine.Rank, mine.Secret = rank, []byte(secret)
		s, err := Open(limited(t), mine, o)
		if err == nil {
			in[rank] = s
		}
		return err
	}
	if err := open(0, "secret"); err != nil {
		t.Fatal(err)
	}
	gathered := make(chan error, 1)
	go func() {
		_, err := in[0].AllGather(t.Context(), nil)
		gathered <- err
	}()
	for rank := range w.Size {
		if err := open(rank, "guess"); rank > 0 && !errors.Is(err, ErrSecret) || err == nil {
			t.Fatalf("a stranger that says it is rank %d: %v", rank, err)
		}
		select {
		case text := <-refused:
			if !strings.Contains(text, fmt.Sprintf("calls itself \\\"rank %d of 3", rank)) {
				t.Errorf("logged: %s", text)
			}
		case <-time.After(guard):
			t.Fatal("nobody was refused")
		}
	}
	for rank := range w.Size - 1 {
		if err := open(rank+1, "secret"); err != nil {
			t.Fatal(err)
		}
	}
	if err := every(in[1:], func(_ int, s *Store) error {
		_, err := s.AllGather(limited(t), nil)
		return err
	}); err != nil {
		t.Error(err)
	}
	if err := <-gathered; err != nil {
		t.Error(err)
	}
}

// chanWriter passes on a logger's lines.
type chanWriter chan string

func (c chanWriter) Write(b []byte) (int, error) {
	c <- string(b)
	return len(b), nil
}
