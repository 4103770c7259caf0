package local_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/encoding"
	"github.com/ringside-go/ringside/ipc/local"
	"github.com/ringside-go/ringside/shm/limits/limitstest"
)

// helperDial dials args[0] and says how that went.
func helperDial(ctx context.Context, args []string) error {
	c, err := local.New().Dial(ctx, args[0], nil)
	if err != nil {
		fmt.Println(errors.Is(err, ipc.ErrRefused), err)
		return nil
	}
	fmt.Println("connected")
	return c.Close()
}

// helperFlight sends a message with a descriptor while more of this user are on their way
// than this process may have.
func helperFlight(ctx context.Context, _ []string) error {
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 64, Max: 64}); err != nil {
		return err
	}
	waits := make(chan struct{}, 1)
	transport := local.Stepping(func(step string) {
		if step == "files wait" {
			select {
			case waits <- struct{}{}:
			default:
			}
		}
	})
	met := make(chan ipc.Conn, 1)
	theirs, _, err := transport.Offer(nil, func(c ipc.Conn, _ error) { met <- c })
	if err != nil {
		return err
	}
	a, err := transport.Take(ctx, theirs, nil)
	if err != nil {
		return err
	}
	b := <-met
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	for err == nil {
		err = unix.Sendmsg(fds[0], []byte("x"), unix.UnixRights(0), nil, unix.MSG_DONTWAIT)
	}
	if err != unix.ETOOMANYREFS {
		return err
	}
	sent := make(chan error, 1)
	go func() {
		_, err := a.Reserve(ctx, 1, 0)
		if err == nil {
			err = a.Commit(os.Stdin)
		}
		sent <- err
	}()
	select {
	case <-waits:
	case err := <-sent:
		return fmt.Errorf("sent while others are on their way: %v", err)
	}
	_ = unix.Close(fds[0])
	_ = unix.Close(fds[1]) // with all that were on their way
	if err := <-sent; err != nil {
		return err
	}
	m, err := b.Recv(ctx)
	if err == nil {
		fmt.Println(len(m.Files), "received")
	}
	return err
}

// TestDescriptorsOnTheirWay runs helperFlight as a user without privileges, whom alone
// the kernel counts them for.
func TestDescriptorsOnTheirWay(t *testing.T) {
	limitstest.NeedRoot(t, os.Getenv, "becoming a user that has no other process")
	ctx := testContext(t)
	dir := socketDir(t)
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	exe := filepath.Join(dir, "test") // where the user may read it
	if err := copyProgram(exe); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, exe, helperFlag+"flight")
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 54324, Gid: 54324, NoSetGroups: true}, Pdeathsig: syscall.SIGKILL}
	if out, err := cmd.Output(); err != nil || string(out) != "1 received\n" {
		t.Errorf("%q, %v; expected 1 received", out, err)
	}
}

// TestOtherUsers: processes of this user may connect, and with AllowGID those whose
// primary group it is. All others are refused with one line on either side, and counted
// if they reached the listener.
func TestOtherUsers(t *testing.T) {
	limitstest.NeedRoot(t, os.Getenv, "becoming another user")
	const other, group, elsewhere = 54321, 54322, 54323
	ctx := testContext(t)
	dir := socketDir(t)
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	exe := filepath.Join(dir, "test") // where the others may read it
	if err := copyProgram(exe); err != nil {
		t.Fatal(err)
	}
	for i, c := range []struct {
		what    string
		allow   int
		cred    syscall.Credential
		says    []string
		refused uint64 // by the listener
	}{
		{"another user", 0, syscall.Credential{Uid: other, Gid: other, NoSetGroups: true},
			[]string{"true ", "another user", "permission denied"}, 0},
		{"another user of the group", group, syscall.Credential{Uid: other, Gid: group, NoSetGroups: true}, []string{"connected"}, 0},
		{"another user of another group", group, syscall.Credential{Uid: other, Gid: elsewhere, NoSetGroups: true},
			[]string{"true ", "permission denied"}, 0},
		{"another user who is in the group beside", group, syscall.Credential{Uid: other, Gid: elsewhere, Groups: []uint32{group}},
			[]string{"true ", "user 54321 (group 54323)", "expected user 0"}, 1},
		{"the user", 0, syscall.Credential{Uid: 0, Gid: elsewhere, NoSetGroups: true}, []string{"connected"}, 0},
	} {
		log := make(lines, 10)
		path := fmt.Sprintf("%s/%d", dir, i)
		l, err := local.New().Listen(path, &ipc.Options{AllowGID: c.allow, Logger: slog.New(slog.NewTextHandler(log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(ctx, exe, helperFlag+"dial", path)
		cmd.Stderr = os.Stderr
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &c.cred, Pdeathsig: syscall.SIGKILL}
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s: %v", c.what, err)
		}
		for _, want := range c.says {
			if !strings.Contains(string(out), want) || bytes.Count(out, []byte("\n")) != 1 {
				t.Errorf("%s: %q, expected %q in one line", c.what, out, want)
			}
		}
		if bytes.Count(out, []byte(ipc.ErrRefused.Error())) > 1 {
			t.Errorf("%s: %q says it twice", c.what, out)
		}
		if c.says[0] == "connected" {
			conn := accept(t, ctx, l)
			if p := conn.Peer(); p.UID != int(c.cred.Uid) || p.GID != int(c.cred.Gid) {
				t.Errorf("%s: the peer is %+v", c.what, p)
			}
			conn.Close()
		}
		if n := l.(interface{ Refused() uint64 }).Refused(); n != c.refused {
			t.Errorf("%s: %d refused, expected %d", c.what, n, c.refused)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		for range c.refused {
			select {
			case <-log:
			case <-ctx.Done():
				t.Fatalf("%s: nothing is logged", c.what)
			}
		}
		if len(log) > 0 {
			t.Errorf("%s: logged besides: %s", c.what, <-log)
		}
	}
}

// lines has what is written, in pieces.
type lines chan string

func (l lines) Write(b []byte) (int, error) {
	l <- string(b)
	return len(b), nil
}

// TestRefusedIsCounted: another version, and something that is no Hello.
func TestRefusedIsCounted(t *testing.T) {
	ctx := testContext(t)
	l, path := listen(t, nil)
	for range 3 {
		if _, err := local.New().Dial(ctx, path, &ipc.Options{Hello: ipc.Peer{Version: encoding.Version + 1}}); !errors.Is(err, ipc.ErrVersion) {
			t.Errorf("another version: %v", err)
		}
	}
	if n := l.(interface{ Refused() uint64 }).Refused(); n != 3 {
		t.Errorf("%d refused", n)
	}
}

// copyProgram copies this program to path, for every user to run.
func copyProgram(path string) error {
	from, err := os.Open(os.Args[0])
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	return errors.Join(err, to.Close())
}
