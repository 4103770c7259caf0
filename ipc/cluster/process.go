package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/ringside-go/ringside/ipc/local"
)

// lastWords is how much of a child's standard error is kept for the error that says how
// it died.
const lastWords = 2 << 10

// process starts a part as a child process.
func (c *Cluster) process(child Child) (*part, error) {
	said := &tail{to: c.o.Stderr}
	cmd := exec.Command(c.o.Exe, c.o.Args(child)...)
	cmd.Stderr = said
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Setpgid:   true, // an interrupt from the terminal is for us to pass on
		Pdeathsig: syscall.SIGKILL,
	}
	if child.Role == RoleDispatcher {
		cmd.SysProcAttr.Pdeathsig = syscall.SIGTERM // it has a socket to remove
	}
	// What a grandchild holds open must not keep Wait from returning.
	cmd.WaitDelay = time.Second
	if err := c.starts.start(cmd); err != nil {
		return nil, fmt.Errorf("cluster: starting %s: %w", child, err)
	}
	p := &part{pid: cmd.Process.Pid, done: make(chan struct{})}
	p.stop = func(grace time.Duration) {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-p.done:
		case <-time.After(grace):
			c.log.Warn("process of the cluster does not end and is killed", "child", child.String(), "pid", p.pid)
			_ = cmd.Process.Kill()
		}
	}
	go func() {
		defer close(p.done)
		p.err = ended(cmd.Wait(), said)
	}()
	return p, nil
}

// ended says how a process ended, and its last words.
func ended(err error, said *tail) error {
	var exit *exec.ExitError
	switch {
	case err == nil:
		err = errors.New("ended by itself, exit status 0")
	case errors.As(err, &exit):
		err = errors.New(exit.String())
	}
	if words := said.words(); words != "" {
		err = fmt.Errorf("%w; it said: %s", err, words)
	}
	return err
}

// timerSlack is by how much sleeps of a child may be longer than they should, which is 50 µs by default. A thread of a Go program that was
// idle looks around fifty times, every 20 µs and that, before it does so less often; beside a thread that waits awake on the same core each
// time costs it some 30 µs of a virtual machine. That is half of the core for the first 4 ms of every burst of work, and a
// tenth with this. Other short sleeps of the same programs are those of a thread that steals work, so that it must not be long.
const timerSlack = 200 * time.Microsecond

// starter starts processes from one thread that lives as long as they may: the signal for the death of the
// parent is sent when the thread dies that forked. They have its timer slack, for which it ends with close.
type starter struct {
	work chan func()
	once sync.Once
}

func newStarter() *starter {
	s := &starter{work: make(chan func())}
	go func() {
		runtime.LockOSThread()
		_ = local.SetTimerSlack(timerSlack) // else they are slower
		for f := range s.work {
			f()
		}
	}()
	return s
}

func (s *starter) start(cmd *exec.Cmd) error {
	done := make(chan error)
	s.work <- func() { done <- cmd.Start() }
	return <-done
}

// close ends the thread. No process may be left, and start may not be called again.
func (s *starter) close() { s.once.Do(func() { close(s.work) }) }

// oneAtATime is a writer that several processes' output goes to.
type oneAtATime struct {
	mu sync.Mutex
	to io.Writer
}

func (w *oneAtATime) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.to.Write(b)
}

// tail passes on what is written to it, and keeps the end.
type tail struct {
	to io.Writer // nil: nowhere

	mu   sync.Mutex
	last []byte
}

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last = append(t.last, b...)
	if n := len(t.last) - lastWords; n > 0 {
		t.last = t.last[:copy(t.last, t.last[n:])]
	}
	if t.to != nil {
		return t.to.Write(b)
	}
	return len(b), nil
}

// words are the last lines that were written.
func (t *tail) words() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(bytes.ToValidUTF8(t.last, []byte("?"))))
}
