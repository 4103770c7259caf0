package onehost

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/local"
)

// childEnv has the role of a process that this test binary starts of itself, in JSON.
const childEnv = "RINGSIDE_HOST_TEST_CHILD"

// role is what a child process does.
type role struct {
	What       string // a key of roles
	Rank, Size int
	Dir        string // where the ranks listen
	Timeout    time.Duration
	Bytes      int
	Flat       int
	Staged     bool
	Shown      bool
	Gather     bool
	Dirty      bool
	Seed       uint64
}

// child plays a role and returns the exit status.
func child(encoded string) int {
	var r role
	err := json.Unmarshal([]byte(encoded), &r)
	if err == nil {
		var c *Comm
		if c, err = r.join(); err == nil {
			err = roles[r.What](c, r)
			err = errors.Join(err, c.Close())
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// join makes the comm of this process's rank: every rank listens, and dials those below
// it.
func (r role) join() (*Comm, error) {
	ctx, cancel := context.WithTimeout(context.Background(), hang)
	defer cancel()
	l, err := local.New().Listen(filepath.Join(r.Dir, fmt.Sprint(r.Rank)), nil)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	conns := make([]ipc.Conn, r.Size)
	for p := range r.Rank {
		for conns[p] == nil {
			hello := ipc.Peer{Role: ipc.RoleRank, Name: fmt.Sprint(r.Rank)}
			conns[p], err = local.New().Dial(ctx, filepath.Join(r.Dir, fmt.Sprint(p)), &ipc.Options{Hello: hello})
			if err != nil && !errors.Is(err, ipc.ErrNoListener) {
				return nil, err
			}
		}
	}
	for range r.Size - r.Rank - 1 {
		conn, err := l.Accept(ctx)
		if err != nil {
			return nil, err
		}
		var p int
		if _, err := fmt.Sscan(conn.Peer().Name, &p); err != nil {
			return nil, err
		}
		conns[p] = conn
	}
	return New(ctx, r.Rank, conns, &Options{Timeout: r.Timeout, Staged: r.Staged, Flat: r.Flat})
}

// process is a child: lines it prints, and how it ended.
type process struct {
	*exec.Cmd
	lines chan string
	done  chan error
}

// start starts a process for each rank. They are gone with the test.
func start(t testing.TB, size int, r role) []*process {
	t.Helper()
	dir, err := os.MkdirTemp("", "host")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	out := make([]*process, size)
	for rank := range size {
		r.Rank, r.Size, r.Dir = rank, size, dir
		encoded, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		p := &process{Cmd: exec.Command(os.Args[0]), lines: make(chan string, 1024), done: make(chan error, 1)}
		p.Env = append(os.Environ(), childEnv+"="+string(encoded))
		p.Stderr = os.Stderr
		pipe, err := p.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Start(); err != nil {
			t.Fatal(err)
		}
		read := make(chan struct{})
		go func() {
			defer close(read)
			defer close(p.lines)
			for s := bufio.NewScanner(pipe); s.Scan(); {
				p.lines <- s.Text()
			}
		}()
		go func() {
			<-read
			p.done <- p.Wait()
		}()
		t.Cleanup(func() { p.Process.Kill() })
		out[rank] = p
	}
	return out
}
