package tcp_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/local"
	"github.com/ringside-go/ringside/net/tcp"
)

// childFlag has the test binary be the other process of a test: it dials the address that
// follows, does what it is told and then waits to be killed.
const childFlag = "-child"

func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == childFlag {
		if err := child(os.Args[2], os.Args[3]); err != nil {
			fmt.Fprintln(os.Stderr, "child:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// childMessages is how many messages the child sends.
const childMessages = 50

func child(what, addr string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	w, err := local.NewWaiter()
	if err != nil {
		return err
	}
	switch what {
	case "serves", "joins":
		return linked(ctx, w, what, addr)
	case "is reset":
		return reset(ctx, addr)
	}
	c, err := tcp.New().Dial(ctx, addr, &ipc.Options{Waiter: w, Hello: ipc.Peer{Name: "child"}})
	if err != nil {
		return err
	}
	e := newEnd(c, w)
	switch what {
	case "sends": // and has said so when it is killed
		for i := range uint32(childMessages) {
			if _, err := e.Reserve(ctx, i, 100); err != nil {
				return err
			}
			if err := e.Commit(); err != nil {
				return err
			}
		}
		if err := e.exchange(ctx, 1, [][]byte{make([]byte, 1000)}, nil); err != nil {
			return err
		}
		fmt.Println("sent")
		return e.w.Wait(ctx, func() bool { return false })
	case "exchanges": // until it is killed
		n := 1 << 20
		out, in := [][]byte{make([]byte, n)}, [][]byte{make([]byte, n)}
		fmt.Println("begins")
		for i := uint64(0); ; i++ {
			if err := e.exchange(ctx, i, out, in); err != nil {
				return err
			}
		}
	case "echoes": // messages, until the other end is gone
		for {
			m, err := e.Recv(ctx)
			if errors.Is(err, ipc.ErrPeerGone) {
				return nil
			}
			if err != nil {
				return err
			}
			n := len(m.Body)
			e.Release()
			if _, err := e.Reserve(ctx, 1, n); err != nil {
				return err
			}
			if err := e.Commit(); err != nil {
				return err
			}
		}
	case "answers": // exchanges of as many bytes as the message before them says
		for i := uint64(0); ; i++ {
			m, err := e.Recv(ctx)
			if errors.Is(err, ipc.ErrPeerGone) {
				return nil
			}
			if err != nil {
				return err
			}
			n, rounds := binary.LittleEndian.Uint64(m.Body), binary.LittleEndian.Uint64(m.Body[8:])
			e.Release()
			out, in := [][]byte{make([]byte, n)}, [][]byte{make([]byte, n)}
			for range rounds {
				if err := e.exchange(ctx, i, out, in); err != nil {
					return err
				}
			}
		}
	case "closes": // and ends at once
		if _, err := e.Reserve(ctx, 7, 10_000); err != nil {
			return err
		}
		if err := e.Commit(); err != nil {
			return err
		}
		return e.Close()
	}
	return fmt.Errorf("what is %q?", what)
}

// reset makes conns with itself. One end of each sends something and ends by a reset, of
// which the other is told.
func reset(ctx context.Context, addr string) error {
	l, err := tcp.New().Listen(addr, nil)
	if err != nil {
		return err
	}
	defer l.Close()
	for range 50 {
		a, err := tcp.New().Dial(ctx, l.Addr(), nil)
		if err != nil {
			return err
		}
		b, err := l.Accept(ctx)
		if err != nil {
			return err
		}
		if _, err := a.Reserve(ctx, 1, 1000); err != nil {
			return err
		}
		if err := errors.Join(a.Commit(), tcp.Reset(a)); err != nil {
			return err
		}
		for err == nil {
			if _, err = b.Recv(ctx); err == nil {
				b.Release()
			}
		}
		b.Close()
		if !errors.Is(err, ipc.ErrPeerGone) {
			return fmt.Errorf("%w, expected that the peer is gone", err)
		}
	}
	return nil
}

// TestSilence: a conn that is reset is for the caller to know, not for standard error.
func TestSilence(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), os.Args[0], childFlag, "is reset", "127.0.0.1:0").CombinedOutput()
	if err != nil || len(out) > 0 {
		t.Fatalf("%v, and the process wrote %q", err, out)
	}
}

// start runs a child, waits for its first line if it says one, and returns the conn to
// it.
func start(t testing.TB, ctx context.Context, what string, says bool) (*exec.Cmd, end) {
	t.Helper()
	w, err := local.NewWaiter()
	if err != nil {
		t.Fatal(err)
	}
	l, err := tcp.New().Listen("127.0.0.1:0", &ipc.Options{Waiter: w})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	cmd := exec.Command(os.Args[0], childFlag, what, l.Addr())
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	c, err := l.Accept(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if says {
		if _, err := io.ReadFull(out, make([]byte, 5)); err != nil {
			t.Fatal(err)
		}
	}
	return cmd, newEnd(c, w)
}

// TestKilled: all that a process sent before it was killed is delivered, messages and
// transfers, and then the news.
func TestKilled(t *testing.T) {
	ctx := testContext(t)
	cmd, e := start(t, ctx, "sends", true)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	for i := range uint32(childMessages) {
		m, err := e.Recv(ctx)
		if err != nil || m.Kind != i {
			t.Fatalf("message %d: kind %d, %v", i, m.Kind, err)
		}
		e.Release()
	}
	if err := e.exchange(ctx, 1, nil, [][]byte{make([]byte, 1000)}); err != nil {
		t.Errorf("the transfer: %v", err)
	}
	if _, err := e.Recv(ctx); !errors.Is(err, ipc.ErrPeerGone) {
		t.Errorf("Recv: %v", err)
	}
	if err := e.exchange(ctx, 2, nil, [][]byte{make([]byte, 1)}); !errors.Is(err, ipc.ErrPeerGone) {
		t.Errorf("the next transfer: %v", err)
	}
	var pe *ipc.PeerError
	if err := e.Err(); !errors.As(err, &pe) || pe.Peer.PID != cmd.Process.Pid || pe.Peer.Name != "child" || pe.Peer.Addr == "" {
		t.Errorf("Err: %v", err)
	}
}

// TestKilledWithin kills the peer in the middle of transfers: both directions end with
// the news.
func TestKilledWithin(t *testing.T) {
	ctx := testContext(t)
	r := random(t)
	for range 10 {
		cmd, e := start(t, ctx, "exchanges", true)
		n := 1 << 20
		out, in := [][]byte{make([]byte, n)}, [][]byte{make([]byte, n)}
		last := uint64(r.IntN(20))
		var err error
		for i := uint64(0); err == nil; i++ {
			if i == last {
				go cmd.Process.Kill() // while an exchange is under way
			}
			err = e.exchange(ctx, i, out, in)
		}
		if !errors.Is(err, ipc.ErrPeerGone) {
			t.Errorf("killed after %s exchanges: %v", strconv.FormatUint(last, 10), err)
		}
		if _, err := e.Recv(ctx); !errors.Is(err, ipc.ErrPeerGone) {
			t.Errorf("Recv: %v", err)
		}
	}
}

// TestStopped: a peer that has stopped holds up no other: messages to it are taken or
// refused at once, and Close returns.
func TestStopped(t *testing.T) {
	ctx := testContext(t)
	cmd, e := start(t, ctx, "sends", true)
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	sent := 0
	for {
		_, err := e.TryReserve(1, 10_000)
		if errors.Is(err, ipc.ErrFull) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := e.Commit(); err != nil {
			t.Fatal(err)
		}
		sent++
	}
	if sent == 0 || sent > ipc.DefaultRingBytes/10_000 {
		t.Errorf("%d messages of 10,000 bytes were taken", sent)
	}
	if err := e.BeginSend(1, make([]byte, 256<<20)); err != nil {
		t.Fatal(err)
	}
	if done, err := e.ProgressSend(); done || err != nil {
		t.Errorf("256 MB were sent to a process that has stopped: %v, %v", done, err)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}

// TestExit: a process that ends right after Close has delivered what its kernel took.
func TestExit(t *testing.T) {
	ctx := testContext(t)
	cmd, e := start(t, ctx, "closes", false)
	_ = cmd.Wait()
	m, err := e.Recv(ctx)
	if err != nil || m.Kind != 7 || len(m.Body) != 10_000 {
		t.Fatalf("kind %d, %d bytes, %v", m.Kind, len(m.Body), err)
	}
	e.Release()
	if _, err := e.Recv(ctx); !errors.Is(err, ipc.ErrPeerGone) {
		t.Errorf("%v", err)
	}
}
