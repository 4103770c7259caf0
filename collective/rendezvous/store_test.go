package rendezvous

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/net/tcp"
)

// guard is when a test counts as hanging.
const guard = 2 * time.Minute

func limited(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), guard)
	t.Cleanup(cancel)
	return ctx
}

// socketDir is a folder whose path is short enough for sockets.
func socketDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "rs")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func freePort(t *testing.T) int {
	t.Helper()
	port, err := tcp.FreePort("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// worlds gives every kind of address.
func worlds(t *testing.T, size int) map[string]World {
	return map[string]World{
		"socket":  {Size: size, Socket: filepath.Join(socketDir(t), "s"), Secret: []byte("secret")},
		"job":     {Size: size, Job: "a/job", RuntimeDir: socketDir(t)},
		"parent":  {Size: size, RuntimeDir: socketDir(t)},
		"tcp":     {Size: size, MasterAddr: "127.0.0.1", MasterPort: freePort(t), Secret: []byte("secret")},
		"tls":     {Size: size, MasterAddr: "127.0.0.1", MasterPort: freePort(t), Secret: []byte("secret"), TLS: &ipc.TLS{}},
		"by name": {Size: size, MasterAddr: "localhost", MasterPort: freePort(t)},
	}
}

// openAll opens all ranks at once; the last first, as it may happen.
func openAll(t *testing.T, w World, o *Options) []*Store {
	t.Helper()
	out := make([]*Store, w.Size)
	errs := make([]error, w.Size)
	var wg sync.WaitGroup
	for r := w.Size - 1; r >= 0; r-- {
		mine := w
		mine.Rank = r
		wg.Go(func() { out[r], errs[r] = Open(limited(t), mine, o) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeAll(out) })
	return out
}

func closeAll(stores []*Store) {
	var wg sync.WaitGroup
	for _, s := range stores {
		wg.Go(func() { s.Close() })
	}
	wg.Wait()
}

// every runs f on all ranks at once and returns the joined errors.
func every(stores []*Store, f func(r int, s *Store) error) error {
	errs := make([]error, len(stores))
	var wg sync.WaitGroup
	for r, s := range stores {
		wg.Go(func() { errs[r] = f(r, s) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

func TestAllGather(t *testing.T) {
	for name, w := range worlds(t, 5) {
		t.Run(name, func(t *testing.T) {
			stores := openAll(t, w, nil)
			ctx := limited(t)
			err := every(stores, func(r int, s *Store) error {
				for round := range 20 {
					// rank 0 gives nothing
					mine := bytes.Repeat([]byte{byte(r), byte(round)}, r*round)
					all, err := s.AllGather(ctx, mine)
					if err != nil {
						return err
					}
					for q, v := range all {
						if !bytes.Equal(v, bytes.Repeat([]byte{byte(q), byte(round)}, q*round)) {
							return fmt.Errorf("rank %d, round %d: of rank %d came %d bytes %.20q", r, round, q, len(v), v)
						}
					}
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			for r, s := range stores {
				if k := s.Key(); len(k) != 32 || !bytes.Equal(k, stores[0].Key()) {
					t.Errorf("rank %d's key is %x, rank 0's %x", r, k, stores[0].Key())
				}
			}
		})
	}
}

func TestGroups(t *testing.T) {
	stores := openAll(t, World{Size: 4, Socket: filepath.Join(socketDir(t), "s")}, nil)
	ctx := limited(t)
	if err := every(stores, func(r int, s *Store) error {
		g := s.Group([]string{"even", "odd"}[r%2], r/2, 2)
		for range 3 {
			all, err := g.AllGather(ctx, []byte{byte(r)})
			if err != nil {
				return err
			}
			if want := []byte{byte(r % 2), byte(r%2 + 2)}; !bytes.Equal(bytes.Join(all, nil), want) {
				return fmt.Errorf("rank %d: %v, expected %v", r, all, want)
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

func TestKeys(t *testing.T) {
	stores := openAll(t, World{Size: 3, Socket: filepath.Join(socketDir(t), "s")}, nil)
	ctx := limited(t)
	if _, err := stores[1].Get(ctx, "a"); !errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), `"a"`) {
		t.Errorf("a key that nobody set: %v", err)
	}
	var waited sync.WaitGroup
	for _, s := range stores {
		waited.Go(func() {
			if v, err := s.Wait(ctx, "a"); err != nil || string(v) != "x" {
				t.Errorf("waited for a: %q, %v", v, err)
			}
		})
	}
	if err := stores[2].Set(ctx, "a", []byte("x")); err != nil {
		t.Fatal(err)
	}
	waited.Wait()
	if v, err := stores[0].Get(ctx, "a"); err != nil || string(v) != "x" {
		t.Errorf("got a: %q, %v", v, err)
	}
	if ok, err := stores[0].Delete(ctx, "a"); !ok || err != nil {
		t.Errorf("deleted a: %v, %v", ok, err)
	}
	if ok, err := stores[0].Delete(ctx, "a"); ok || err != nil {
		t.Errorf("deleted a again: %v, %v", ok, err)
	}
	if err := every(stores, func(r int, s *Store) error {
		for range 100 {
			if _, err := s.Add(ctx, "n", int64(r+1)); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if n, err := stores[1].Add(ctx, "n", -600); n != 0 || err != nil {
		t.Errorf("300 additions and one subtraction make %d, %v", n, err)
	}
	if err := stores[1].Set(ctx, "text", []byte("x")); err != nil {
		t.Fatal(err)
	}
	if n, err := stores[1].Add(ctx, "text", 1); err == nil {
		t.Errorf("added to text: %d", n)
	}
	if err := stores[1].Set(ctx, strings.Repeat("k", MaxKey+1), nil); !errors.Is(err, ErrTooLarge) {
		t.Errorf("a long key: %v", err)
	}
	if err := stores[1].Set(ctx, "v", make([]byte, MaxValue+1)); !errors.Is(err, ErrTooLarge) {
		t.Errorf("a large value: %v", err)
	}
	if err := stores[1].Set(ctx, "v", make([]byte, MaxValue)); err != nil {
		t.Errorf("the largest value: %v", err)
	}
	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	if _, err := stores[1].Wait(short, "never"); !errors.Is(err, ErrMissing) && !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("waited for nobody: %v", err)
	}
	gone, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := stores[1].Wait(gone, "never"); !errors.Is(err, context.Canceled) {
		t.Errorf("waited with a context that is over: %v", err)
	}
}

// TestFull: the store ends taking before it has all memory.
func TestFull(t *testing.T) {
	s := openAll(t, World{Size: 1}, nil)[0]
	ctx := limited(t)
	const limit = 8 * MaxValue
	s.client.server.mu.Lock()
	s.client.server.board.limit = limit
	s.client.server.mu.Unlock()
	one := make([]byte, MaxValue)
	for i := range limit/MaxValue + 1 {
		err := s.Set(ctx, fmt.Sprint(i), one)
		if errors.Is(err, ErrFull) {
			if i < limit/MaxValue-2 {
				t.Fatalf("full after %d values", i)
			}
			if _, err := s.Delete(ctx, "0"); err != nil {
				t.Fatal(err)
			}
			if err := s.Set(ctx, "again", one); err != nil {
				t.Fatalf("after one was deleted: %v", err)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Fatal("never full")
}

func TestMissing(t *testing.T) {
	w := World{Size: 4, Socket: filepath.Join(socketDir(t), "s")}
	mine := w
	stores := make([]*Store, 2)
	for r := range stores {
		var err error
		mine.Rank = r
		if stores[r], err = Open(limited(t), mine, nil); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { closeAll(stores) })
	mine.Rank, mine.Size = 2, 5
	if s, err := Open(limited(t), mine, nil); !errors.Is(err, ErrWorldSize) || !strings.Contains(err.Error(), "5 ranks") || !strings.Contains(err.Error(), "says 4") {
		t.Fatalf("rank 2 of 5 in a world of 4: %v, %v", s, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	err := every(stores, func(_ int, s *Store) error {
		_, err := s.AllGather(ctx, nil)
		var m *MissingError
		if !errors.As(err, &m) || !errors.Is(err, ErrMissing) || !slices.Equal(m.Ranks, []int{2, 3}) || !strings.Contains(m.Why, "says that there are 5 ranks") {
			return fmt.Errorf("ranks 2 and 3 are missing: %w", err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// TestReminder: rank 0's log names those that the others wait for.
func TestReminder(t *testing.T) {
	said := make(chan string, 64)
	o := &Options{patience: time.Millisecond, Logger: slog.New(slog.NewTextHandler(lines(said), nil))}
	w := World{Size: 4, Socket: filepath.Join(socketDir(t), "s")}
	var stores []*Store
	open := func(r int) {
		mine := w
		mine.Rank = r
		s, err := Open(limited(t), mine, o)
		if err != nil {
			t.Fatal(err)
		}
		stores = append(stores, s)
	}
	open(0)
	open(1)
	defer func() { closeAll(stores) }()
	ctx, cancel := context.WithCancel(limited(t))
	gathered := make(chan error, 3)
	gather := func(r int) {
		s := stores[r]
		go func() { _, err := s.AllGather(ctx, nil); gathered <- err }()
	}
	gather(0)
	gather(1)
	hear := func(want string) {
		for {
			select {
			case s := <-said:
				if strings.Contains(s, want) {
					return
				}
			case <-ctx.Done():
				t.Fatalf("nobody said %q", want)
			}
		}
	}
	hear(`not come" ranks="[2 3]" of=4`)
	open(2)
	gather(2)
	hear(`not come" ranks=[3] of=4`)
	cancel()
	for range stores {
		if err := <-gathered; err == nil {
			t.Error("a gather without rank 3 succeeded")
		}
	}
}

// lines hands over what is written while there is room.
type lines chan string

func (l lines) Write(b []byte) (int, error) {
	select {
	case l <- string(b):
	default:
	}
	return len(b), nil
}

// TestLeaver: a rank that gathers with one that is gone learns it at once, long before
// the deadline.
func TestLeaver(t *testing.T) {
	stores := openAll(t, World{Size: 3, Socket: filepath.Join(socketDir(t), "s")}, &Options{Timeout: time.Hour})
	left := make(chan error, 2)
	for _, s := range stores[:2] {
		go func() {
			_, err := s.AllGather(t.Context(), nil)
			left <- err
		}()
	}
	stores[2].client.conn.Close() // as by SIGKILL
	for range 2 {
		select {
		case err := <-left:
			if m := new(MissingError); !errors.As(err, &m) || !slices.Equal(m.Ranks, []int{2}) && !slices.Contains(m.Ranks, 2) || !strings.Contains(m.Why, "rank 2 left") {
				t.Errorf("rank 2 left: %v", err)
			}
		case <-time.After(guard):
			t.Fatal("nobody noticed that rank 2 is gone")
		}
	}
	if _, err := stores[2].AllGather(limited(t), nil); !errors.Is(err, ErrLost) {
		t.Errorf("on the rank whose connection broke: %v", err)
	}
}

// TestMasterGone: the others' calls end when rank 0 does.
func TestMasterGone(t *testing.T) {
	w := World{Size: 2, MasterAddr: "127.0.0.1", MasterPort: freePort(t)}
	stores := openAll(t, w, &Options{Linger: -1})
	lost := make(chan error, 1)
	go func() {
		_, err := stores[1].Wait(t.Context(), "x")
		lost <- err
	}()
	stores[0].Close()
	select {
	case err := <-lost:
		if !errors.Is(err, ErrLost) || !strings.Contains(err.Error(), w.Addr()) {
			t.Errorf("rank 0 is gone: %v", err)
		}
	case <-time.After(guard):
		t.Fatal("still waiting")
	}
	if err := stores[0].Set(limited(t), "x", nil); !errors.Is(err, net.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}
