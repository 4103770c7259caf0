package local_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/local"
)

// helpers are what this test binary does when it is started as the other process: its
// arguments are what follows the name.
var helpers = map[string]func(ctx context.Context, args []string) error{
	"listen":       helperListen,
	"echo":         helperEcho,
	"send-and-die": helperSendAndDie,
	"hold":         helperHold,
	"half-hello":   helperHalfHello,
	"echo-unix":    helperEchoUnix,
	"victim":       helperVictim,
	"dial":         helperDial,
	"flight":       helperFlight,
	"busy":         helperBusy,
}

const helperFlag = "-helper="

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && strings.HasPrefix(os.Args[1], helperFlag) {
		name := strings.TrimPrefix(os.Args[1], helperFlag)
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		err := helpers[name](ctx, os.Args[2:])
		cancel()
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// process is another process running a helper.
type process struct {
	cmd *exec.Cmd
	out *bufio.Reader
}

// start runs a helper. It is killed with the test.
func start(t testing.TB, name string, args ...string) *process {
	t.Helper()
	cmd := exec.Command(os.Args[0], append([]string{helperFlag + name}, args...)...)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: cmd, out: bufio.NewReader(out)}
	t.Cleanup(p.kill)
	return p
}

// line waits for a line of its output.
func (p *process) line(t testing.TB) string {
	t.Helper()
	s, err := p.out.ReadString('\n')
	if err != nil {
		t.Fatalf("helper said %q: %v", s, err)
	}
	return strings.TrimSuffix(s, "\n")
}

func (p *process) kill() {
	_ = p.cmd.Process.Signal(syscall.SIGKILL)
	_ = p.cmd.Wait()
}

// helperListen listens at args[0], says so, and waits to be killed.
func helperListen(ctx context.Context, args []string) error {
	l, err := local.New().Listen(args[0], nil)
	if err != nil {
		return err
	}
	fmt.Println("listening")
	_, err = l.Accept(ctx)
	return errors.Join(err, ctx.Err())
}

// helperEcho dials args[0] and sends everything back until the peer is gone.
func helperEcho(ctx context.Context, args []string) error {
	c, err := local.New().Dial(ctx, args[0], &ipc.Options{Hello: ipc.Peer{Role: ipc.RoleClient, Name: "echo"}})
	if err != nil {
		return err
	}
	defer c.Close()
	for {
		m, err := c.Recv(ctx)
		if errors.Is(err, ipc.ErrPeerGone) {
			return nil
		}
		if err != nil {
			return err
		}
		buf, err := c.Reserve(ctx, m.Kind, len(m.Body))
		if err != nil {
			return err
		}
		copy(buf, m.Body)
		c.Release()
		if err := c.Commit(m.Files...); err != nil {
			return err
		}
		for _, f := range m.Files {
			f.Close()
		}
	}
}

// helperSendAndDie dials args[0], sends args[1] messages, reserves one more, fills half
// of it and dies as if killed.
func helperSendAndDie(ctx context.Context, args []string) error {
	n, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	c, err := local.New().Dial(ctx, args[0], nil)
	if err != nil {
		return err
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	for i := range n {
		buf, err := c.Reserve(ctx, uint32(i), 100)
		if err != nil {
			return err
		}
		clear(buf)
		var files []*os.File
		if i%10 == 9 {
			files = append(files, null)
		}
		if err := c.Commit(files...); err != nil {
			return err
		}
	}
	buf, err := c.Reserve(ctx, 99999, 1000)
	if err != nil {
		return err
	}
	clear(buf[:500])
	return syscall.Kill(os.Getpid(), syscall.SIGKILL)
}

// helperHold dials args[0], says so, and does nothing more.
func helperHold(ctx context.Context, args []string) error {
	c, err := local.New().Dial(ctx, args[0], nil)
	if err != nil {
		return err
	}
	fmt.Println("dialed")
	<-ctx.Done()
	return c.Close()
}

// helperHalfHello connects to the socket at args[0], sends nothing or some bytes of no
// Hello, says so, and does nothing more.
func helperHalfHello(ctx context.Context, args []string) error {
	c, err := net.Dial("unixpacket", args[0])
	if err != nil {
		return err
	}
	if len(args) > 1 {
		if _, err := io.WriteString(c, args[1]); err != nil {
			return err
		}
	}
	fmt.Println("connected")
	<-ctx.Done()
	return nil
}

func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func listen(t testing.TB, o *ipc.Options) (l ipc.Listener, path string) {
	t.Helper()
	path = filepath.Join(socketDir(t), "s")
	l, err := local.New().Listen(path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l, path
}

func accept(t testing.TB, ctx context.Context, l ipc.Listener) ipc.Conn {
	t.Helper()
	c, err := l.Accept(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// TestProcesses talks to another process, with messages of all sizes and files.
func TestProcesses(t *testing.T) {
	ctx := testContext(t)
	l, path := listen(t, nil)
	p := start(t, "echo", path)
	c := accept(t, ctx, l)
	if peer := c.Peer(); peer.PID != p.cmd.Process.Pid || peer.UID != os.Getuid() || peer.Name != "echo" ||
		peer.Role != ipc.RoleClient || peer.Start == 0 {
		t.Errorf("peer is %+v, expected pid %d", peer, p.cmd.Process.Pid)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for i := range 3000 {
		n := i * 31 % 5000
		buf, err := c.Reserve(ctx, uint32(i), n)
		if err != nil {
			t.Fatal(err)
		}
		for k := range buf {
			buf[k] = byte(i + k)
		}
		if i == 1500 {
			err = c.Commit(w)
		} else {
			err = c.Commit()
		}
		if err != nil {
			t.Fatal(err)
		}
		m, err := c.Recv(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if m.Kind != uint32(i) || len(m.Body) != n {
			t.Fatalf("message %d of %d bytes, expected %d of %d", m.Kind, len(m.Body), i, n)
		}
		for k := range m.Body {
			if m.Body[k] != byte(i+k) {
				t.Fatalf("message %d: byte %d is %d", i, k, m.Body[k])
			}
		}
		c.Release()
		for _, f := range m.Files {
			if _, err := f.WriteString("there and back"); err != nil {
				t.Error(err)
			}
			f.Close()
		}
	}
	w.Close()
	got, err := io.ReadAll(r)
	if err != nil || string(got) != "there and back" {
		t.Errorf("read %q, %v", got, err)
	}
	c.Close()
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("the other process: %v", err)
	}
}

// TestKilledSender: what a process had committed when it died is received, what it was
// writing is not, and then comes the news.
func TestKilledSender(t *testing.T) {
	ctx := testContext(t)
	for _, n := range []int{0, 1, 100, 1000} {
		l, path := listen(t, nil)
		start(t, "send-and-die", path, strconv.Itoa(n))
		c := accept(t, ctx, l)
		for i := range n {
			m, err := c.Recv(ctx)
			if err != nil {
				t.Fatalf("message %d of %d: %v", i, n, err)
			}
			if m.Kind != uint32(i) || len(m.Files) != i%10/9 {
				t.Fatalf("message %d with %d files, expected %d", m.Kind, len(m.Files), i)
			}
			for _, f := range m.Files {
				f.Close()
			}
			c.Release()
		}
		if m, err := c.Recv(ctx); !errors.Is(err, ipc.ErrPeerGone) {
			t.Errorf("after %d messages: %+v, %v", n, m, err)
		}
	}
}

// TestKilledPeer: a goroutine that waits for a process that is killed learns of it, in
// Recv, in Reserve, and on a Waiter.
func TestKilledPeer(t *testing.T) {
	ctx := testContext(t)
	w, err := local.NewWaiter()
	if err != nil {
		t.Fatal(err)
	}
	for what, wait := range map[string]func(c ipc.Conn) error{
		"Recv": func(c ipc.Conn) error { _, err := c.Recv(ctx); return err },
		"Reserve": func(c ipc.Conn) error {
			for {
				if _, err := c.Reserve(ctx, 1, 1000); err != nil {
					return err
				}
				if err := c.Commit(); err != nil {
					return err
				}
			}
		},
		"Waiter": func(c ipc.Conn) (err error) {
			if err := w.Wait(ctx, func() bool { _, _, err = c.TryRecv(); return err != nil }); err != nil {
				return err
			}
			return err
		},
	} {
		l, path := listen(t, &ipc.Options{RingBytes: ipc.MinRingBytes})
		if what == "Waiter" {
			l.Close()
			l, path = listen(t, &ipc.Options{Waiter: w})
		}
		p := start(t, "hold", path)
		c := accept(t, ctx, l)
		p.line(t)
		done := make(chan error)
		go func() { done <- wait(c) }()
		p.kill()
		if err := <-done; !errors.Is(err, ipc.ErrPeerGone) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestKilledListener: the path of a listener that was killed is taken over, that of one
// that lives is not.
func TestKilledListener(t *testing.T) {
	ctx := testContext(t)
	path := filepath.Join(socketDir(t), "s")
	for range 3 {
		p := start(t, "listen", path)
		p.line(t)
		_, err := local.New().Listen(path, nil)
		if want := fmt.Sprintf("pid %d", p.cmd.Process.Pid); !errors.Is(err, ipc.ErrAddrInUse) ||
			!strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), want) {
			t.Errorf("Listen beside a living process: %v, expected %s", err, want)
		}
		p.kill()
		if _, err := local.New().Dial(ctx, path, nil); !errors.Is(err, ipc.ErrNoListener) {
			t.Errorf("Dial of a dead process: %v", err)
		}
	}
	l, err := local.New().Listen(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(left) != 0 {
		t.Errorf("Close left %v, %v", left, err)
	}
}

// TestSilentDialer: processes that connect and say nothing, or nonsense, or die, disturb
// no other peer.
func TestSilentDialer(t *testing.T) {
	ctx := testContext(t)
	l, path := listen(t, nil)
	for _, args := range [][]string{{path}, {path, "RSID"}, {path, strings.Repeat("x", 300)}} {
		p := start(t, "half-hello", args...)
		p.line(t)
		a, err := local.New().Dial(ctx, path, nil)
		if err != nil {
			t.Fatal(err)
		}
		b := accept(t, ctx, l)
		if _, err := a.Reserve(ctx, 1, 0); err != nil {
			t.Fatal(err)
		}
		if err := a.Commit(); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Recv(ctx); err != nil {
			t.Fatal(err)
		}
		a.Close()
		p.kill()
	}
}
