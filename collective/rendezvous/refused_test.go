package rendezvous

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ringside-go/ringside/ipc"
)

func TestUnreachable(t *testing.T) {
	for name, w := range map[string]World{
		"tcp":  {Size: 2, Rank: 1, MasterAddr: "127.0.0.1", MasterPort: freePort(t)},
		"unix": {Size: 2, Rank: 1, Socket: filepath.Join(socketDir(t), "s")},
	} {
		_, err := Open(t.Context(), w, &Options{Timeout: 100 * time.Millisecond})
		if !errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), w.Addr()) || !strings.Contains(err.Error(), "rank 1") || !strings.Contains(err.Error(), "ms") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRefused(t *testing.T) {
	for name, w := range worlds(t, 3) {
		t.Run(name, func(t *testing.T) {
			w.Epoch = 7
			o := &Options{Linger: -1}
			zero, err := Open(limited(t), w, o)
			if err != nil {
				t.Fatal(err)
			}
			defer zero.Close()
			one := w
			one.Rank = 1
			s, err := Open(limited(t), one, o)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			for _, c := range []struct {
				what string
				with func(w *World)
				err  error
				has  string
			}{
				{"rank 1 again", func(*World) {}, ErrDuplicateRank, "rank 1 of 3 is connected already"},
				{"rank 0 again", func(w *World) { w.Rank = 0 }, ErrDuplicateRank, "rank 0 of 3"},
				{"a larger world", func(w *World) { w.Size = 9 }, ErrWorldSize, "9 ranks, rank 0 says 3"},
				{"another secret", func(w *World) { w.Rank, w.Secret = 2, []byte("guess") }, ErrSecret, "rank 2"},
				{"another epoch", func(w *World) { w.Rank, w.Epoch, w.Socket = 2, 6, zero.World().Socket }, ErrStale, "epoch 6, rank 0 of 7"},
			} {
				mine := one
				c.with(&mine)
				_, err := Open(limited(t), mine, o)
				if !errors.Is(err, c.err) || !strings.Contains(err.Error(), c.has) {
					t.Errorf("%s: %v; expected %v, %q", c.what, err, c.err, c.has)
				}
			}
			// None of that harmed the ranks that are in.
			if err := s.Set(limited(t), "k", nil); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestAgain: the ranks of one process after the other meet at the same address, also when
// rank 0 is the last to leave.
func TestAgain(t *testing.T) {
	w := World{Size: 3, MasterAddr: "127.0.0.1", MasterPort: freePort(t)}
	var wg sync.WaitGroup
	for r := range w.Size {
		mine := w
		mine.Rank = r
		wg.Go(func() {
			for range 10 {
				s, err := Open(limited(t), mine, nil)
				if err != nil {
					t.Errorf("rank %d: %v", r, err)
					return
				}
				if _, err := s.AllGather(limited(t), nil); err != nil {
					t.Errorf("rank %d: %v", r, err)
				}
				s.Close()
			}
		})
	}
	wg.Wait()
}

// TestStaleSocket: a socket that a rank 0 left behind that was killed is no obstacle.
func TestStaleSocket(t *testing.T) {
	path := filepath.Join(socketDir(t), "s")
	lis, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	lis.(*net.UnixListener).SetUnlinkOnClose(false)
	lis.Close()
	stores := openAll(t, World{Size: 2, Socket: path}, nil)
	closeAll(stores)
	if _, err := os.Stat(path); err == nil {
		t.Error("the socket is left")
	}
}

// TestGarbage: a caller that isn't a rank gets one line and harms no rank.
func TestGarbage(t *testing.T) {
	w := World{Size: 2, MasterAddr: "127.0.0.1", MasterPort: freePort(t)}
	zero, err := Open(limited(t), w, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer zero.Close()
	for name, bytes := range map[string]string{
		"a browser":        "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
		"a huge frame":     "\xff\xff\xff\xff\x01\x00\x00\x00\x00",
		"an empty frame":   "\x00\x00\x00\x00",
		"another protocol": "\x0d\x00\x00\x00\x01\x00\x00\x00\x00hi there",
	} {
		c, err := net.Dial("tcp", w.Addr())
		if err != nil {
			t.Fatal(err)
		}
		c.SetDeadline(time.Now().Add(guard))
		if _, err := io.WriteString(c, bytes); err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(c)
		if text := string(got); !strings.HasPrefix(text, "ringside: this port expects") || strings.Count(text, "\n") != 1 || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s got %q, %v; expected one line and the end", name, got, err)
		}
		c.Close()
	}
	mine := w
	mine.Rank = 1
	one, err := Open(limited(t), mine, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer one.Close()
	if err := every([]*Store{zero, one}, func(_ int, s *Store) error {
		_, err := s.AllGather(limited(t), nil)
		return err
	}); err != nil {
		t.Error(err)
	}
}

// TestStranger: a rank that meets something else at rank 0's address says so at once.
func TestStranger(t *testing.T) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer lis.Close()
	go func() {
		for {
			c, err := lis.Accept()
			if err != nil {
				return
			}
			io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n")
			io.Copy(io.Discard, c)
			c.Close()
		}
	}()
	w := World{Size: 2, Rank: 1, MasterAddr: "127.0.0.1", MasterPort: lis.Addr().(*net.TCPAddr).Port}
	if _, err := Open(limited(t), w, nil); !errors.Is(err, ErrProtocol) || !strings.Contains(err.Error(), "HTTP") || !strings.Contains(err.Error(), w.Addr()) {
		t.Errorf("%v; expected ErrProtocol, what came and from where", err)
	}
	w.Rank = 0
	if _, err := Open(limited(t), w, nil); !errors.Is(err, ipc.ErrAddrInUse) || !strings.Contains(err.Error(), w.Addr()) {
		t.Errorf("rank 0 where something else listens: %v", err)
	}
}
