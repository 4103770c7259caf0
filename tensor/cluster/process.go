package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/ringside-go/ringside/ipc/local"
	"github.com/ringside-go/ringside/shm/limits"
)

const (
	// lastWords is how much of a child's standard error is kept for the error about its
	// end.
	lastWords = 2 << 10

	// lastWhile is the time before its end in which a child wrote the text of that error.
	// Earlier output is no reason for its end.
	lastWhile = 5 * time.Second
)

// process starts a part as a child process.
func (c *Cluster) process(child Child) (*part, error) {
	said := &tail{to: c.o.Stderr, now: time.Now}
	cmd := exec.Command(c.o.Exe, c.o.Args(child)...)
	cmd.Stderr = said
	c.useFewCores(cmd)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Setpgid:   true, // an interrupt from the terminal is passed on by this process
		Pdeathsig: syscall.SIGKILL,
	}
	if child.Role == RoleDispatcher {
		cmd.SysProcAttr.Pdeathsig = syscall.SIGTERM // it has a socket to remove
	}
	// A pipe that a grandchild holds open must not keep Wait from returning.
	cmd.WaitDelay = time.Second
	if err := c.starts.start(cmd); err != nil {
		return nil, fmt.Errorf("cluster: starting %s: %w", child, limits.Started(err))
	}
	c.mu.Lock()
	c.said[child] = said
	c.mu.Unlock()
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
	if said.lacksThread() {
		t := limits.Machine{}.Threads(math.MaxInt)
		return fmt.Errorf("%w: it found no thread, which the Go runtime can't do without: %v: %s", err, t, t.Raise(threadsOfOwn+threadsOfChild))
	}
	if words := said.words(said.now().Add(-lastWhile)); words != "" {
		err = fmt.Errorf("%w; it said: %s", err, words)
	}
	return err
}

// timerSlack is how much longer than asked the sleeps of a child may be. An idle thread
// of the Go runtime polls in short sleeps at first, which cost a busy waiting thread on
// the same core much of its time; with more slack it polls less often. Threads that steal
// work sleep shortly too, so the slack must not be long.
const timerSlack = 200 * time.Microsecond

// starter starts processes from one thread that lives as long as they may: the signal for
// the death of a parent is sent when the thread that forked ends. The processes inherit
// the timer slack of the thread, which ends with close.
type starter struct {
	work chan func()
	once sync.Once
}

func newStarter() *starter {
	s := &starter{work: make(chan func())}
	go func() {
		runtime.LockOSThread()
		_ = local.SetTimerSlack(timerSlack) // without it they are slower
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

// tail passes on what is written to it, and keeps the last lines.
type tail struct {
	to  io.Writer // nil: nowhere
	now func() time.Time

	mu    sync.Mutex
	lines []line // of which the last may still be without its end
	size  int    // of all their text
	open  bool   // the last one is
	lacks bool   // a line said that there was no thread
}

type line struct {
	at   time.Time // of its last byte
	text []byte
}

// Write implements io.Writer. Only one goroutine calls it. While it waits for the other
// writer, words can be asked for.
func (t *tail) Write(b []byte) (int, error) {
	t.add(b)
	if t.to != nil {
		return t.to.Write(b)
	}
	return len(b), nil
}

func (t *tail) add(b []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	for part := range bytes.Lines(b) {
		t.lacks = t.lacks || lacksThread(part)
		t.keep(now, bytes.TrimSuffix(part, []byte("\n")))
		t.open = part[len(part)-1] != '\n'
	}
}

// keep adds text to the last line if that is open, else a new line, and drops the oldest
// lines beyond the limit. Of one line beyond the limit it drops the beginning.
func (t *tail) keep(now time.Time, text []byte) {
	if !t.open {
		t.lines = append(t.lines, line{})
	}
	l := &t.lines[len(t.lines)-1]
	l.at, l.text = now, append(l.text, text...)
	t.size += len(text)
	for t.size > lastWords && len(t.lines) > 1 {
		t.size -= len(t.lines[0].text)
		t.lines = slices.Delete(t.lines, 0, 1)
	}
	if n := t.size - lastWords; n > 0 {
		l = &t.lines[0]
		l.text = slices.Delete(l.text, 0, n)
		t.size -= n
	}
}

// lacksThread reports whether a line said that there was no thread.
func (t *tail) lacksThread() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.lacks
}

// words returns the lines that were written since a time. Equal lines in a row are one.
func (t *tail) words(since time.Time) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	recent := slices.DeleteFunc(slices.Clone(t.lines), func(l line) bool { return l.at.Before(since) })
	recent = slices.CompactFunc(recent, func(a, b line) bool { return bytes.Equal(a.text, b.text) })
	var said [][]byte
	for _, l := range recent {
		said = append(said, l.text)
	}
	return strings.TrimSpace(string(bytes.ToValidUTF8(bytes.Join(said, []byte("\n")), []byte("?"))))
}
