package launch

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/ringside-go/ringside/shm/limits"
	"github.com/ringside-go/ringside/shm/plain"
)

// rank is a running process.
type rank struct {
	place place
	cmd   *exec.Cmd
	stdin io.Closer     // of a remote shell: its end ends the rank; nil for a local one
	done  chan struct{} // closed when it has ended, and what it left behind
	err   *RankError    // how; nil for exit status 0
	asked atomic.Bool   // to end
	errs  *lines        // its standard error
}

// output is how long a rank's output may stay open after its end, by processes that it
// left behind.
const output = 2 * time.Second

// sweepEvery is how often it is looked whether what a rank left behind has ended: with
// thousands of processes a look takes milliseconds.
const sweepEvery = 50 * time.Millisecond

// start starts a rank. It is sent to ended when it has ended, with err set, and to swept
// when all that it left behind has too.
func (s *settled) start(t thread, k *keeper, p place, epoch int, mu *sync.Mutex, ended, swept chan<- *rank) (*rank, error) {
	r := &rank{place: p, done: make(chan struct{})}
	vars := s.variables(p, epoch)
	if p.name == Localhost {
		r.cmd = exec.Command(s.Program[0], s.Program[1:]...)
		r.cmd.Dir = s.Dir
		r.cmd.Env = append(inherited(s.Environ), vars...)
	} else {
		command, script := remote(s.Program, s.Dir, vars, s.Grace)
		args := append(append([]string(nil), s.RemoteShell[1:]...), p.name, command)
		r.cmd = exec.Command(s.RemoteShell[0], args...)
		r.cmd.Env = s.Environ
		in, err := r.cmd.StdinPipe()
		if err != nil {
			return nil, fmt.Errorf("launch: %w", err)
		}
		r.stdin = in
		defer func() {
			if r.cmd.Process != nil {
				go io.WriteString(in, script) // it ends when the shell does
			}
		}()
	}
	prefix := ""
	if s.Prefix {
		prefix = "[" + strconv.Itoa(p.rank) + "] "
	}
	out := &lines{mu: mu, to: s.Stdout, prefix: prefix}
	errs := &lines{mu: mu, to: s.Stderr, prefix: prefix}
	if p.name == Localhost {
		errs.news = func(line []byte) bool { return s.isNews(line, p.rank, epoch) }
	}
	r.errs = errs
	said, err := newOutputs(out, errs)
	if err != nil {
		if r.stdin != nil {
			r.stdin.Close()
		}
		return nil, fmt.Errorf("launch: %w", err)
	}
	r.cmd.Stdout, r.cmd.Stderr = said.write[0], said.write[1]
	r.cmd.SysProcAttr = &syscall.SysProcAttr{
		Setpgid:   true, // an interrupt from the terminal is for us to pass on
		Pdeathsig: syscall.SIGKILL,
	}
	err = t.do(r.cmd.Start)
	said.begin()
	if err != nil {
		said.end()
		return nil, fmt.Errorf("launch: starting rank %d on %s: %w%s", p.rank, p.name, plain.Path(limits.Started(err)), unstarted(r.cmd.Path, err))
	}
	if r.stdin == nil {
		k.begin(r.cmd.Process.Pid)
	}
	s.Logger.Debug("rank started", "rank", p.rank, "host", p.name, "pid", r.cmd.Process.Pid)
	go func() {
		r.err = verdict(p, r.cmd.Wait(), r.cmd)
		// not when its output ends, which others may hold open: the order in which ranks
		// end must be seen
		ended <- r
		said.end()
		if r.stdin != nil {
			r.stdin.Close()
		}
		if r.stdin == nil && running(r.cmd.Process.Pid) {
			s.Logger.Warn("rank left processes behind, ending them", "rank", p.rank, "group", r.cmd.Process.Pid)
			r.sweep(s.Grace)
		}
		if r.stdin == nil {
			k.end(r.cmd.Process.Pid)
		}
		close(r.done)
		swept <- r
	}()
	return r, nil
}

// outputs pass on what a process writes to its standard output and error.
type outputs struct {
	to          [2]*lines
	read, write [2]*os.File
	done        chan struct{} // closed when both have ended
}

func newOutputs(to ...*lines) (*outputs, error) {
	o := &outputs{to: [2]*lines(to), done: make(chan struct{})}
	for i := range o.to {
		var err error
		if o.read[i], o.write[i], err = os.Pipe(); err != nil {
			for _, f := range append(o.read[:i], o.write[:i]...) {
				f.Close()
			}
			return nil, err
		}
	}
	return o, nil
}

// begin passes on, once the process has its ends.
func (o *outputs) begin() {
	var both sync.WaitGroup
	for i := range o.to {
		o.write[i].Close()
		both.Go(func() {
			_, _ = io.Copy(o.to[i], o.read[i])
			o.to[i].close()
			o.read[i].Close()
		})
	}
	go func() {
		both.Wait()
		close(o.done)
	}()
}

// end waits until both have ended, or have been open for too long after the process.
func (o *outputs) end() {
	late := time.NewTimer(output)
	defer late.Stop()
	select {
	case <-o.done:
	case <-late.C:
		for _, f := range o.read {
			f.Close()
		}
		<-o.done
	}
}

// verdict is how a process ended.
func verdict(p place, err error, cmd *exec.Cmd) *RankError {
	if err == nil {
		return nil
	}
	e := &RankError{Rank: p.rank, Host: p.name, Code: 1, How: err.Error()}
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok {
		switch {
		case status.Signaled():
			e.Code = 128 + int(status.Signal())
		case status.Exited():
			e.Code = status.ExitStatus()
		}
	}
	if e.Code == 255 && p.name != Localhost {
		e.How += " (of the remote shell, if it could not reach the host)"
	}
	return e
}

// sweep asks the processes that a local rank left behind in its group to end, unless they
// were asked already, and kills them if they have not by then.
func (r *rank) sweep(grace time.Duration) {
	r.signal(syscall.SIGTERM)
	late := time.NewTimer(grace)
	defer late.Stop()
	look := time.NewTicker(sweepEvery)
	defer look.Stop()
	for running(r.cmd.Process.Pid) {
		select {
		case <-look.C:
		case <-late.C:
			r.signal(syscall.SIGKILL)
			return
		}
	}
}

// running reports whether a process group has a process that has not ended. Zombies have
// ended: the host's first process waits for the processes that a rank leaves behind, and
// in a container that may never happen.
func running(group int) bool {
	if syscall.Kill(-group, 0) != nil {
		return false
	}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is a good one
	for _, path := range stats {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue // it is gone
		}
		// "pid (name) state ppid pgrp ...", where the name may have anything in it.
		f := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if len(f) > 2 && string(f[2]) == strconv.Itoa(group) && string(f[0]) != "Z" && string(f[0]) != "X" {
			return true
		}
	}
	return false
}

// signal sends a signal to the process group of a rank, unless nothing of it is left;
// SIGTERM once. A remote one only knows the end of its standard input.
func (r *rank) signal(sig syscall.Signal) {
	select {
	case <-r.done:
		return
	default:
	}
	if sig == syscall.SIGTERM && r.asked.Swap(true) {
		return
	}
	if r.stdin != nil && sig == syscall.SIGTERM {
		r.stdin.Close()
		return
	}
	_ = syscall.Kill(-r.cmd.Process.Pid, sig)
}

// remote is the command that the remote shell runs on a host, and what it gets by
// standard input: a script of so many bytes, and then nothing, until the end tells it to
// end the rank.
func remote(program []string, dir string, vars []string, grace time.Duration) (command, script string) {
	var b strings.Builder
	fmt.Fprintf(&b, "cd %s || exit 126\n", quote(dir))
	for _, v := range vars {
		name, value, _ := strings.Cut(v, "=")
		fmt.Fprintf(&b, "export %s=%s\n", name, quote(value))
	}
	fmt.Fprintf(&b, `end() {
	kill -s TERM -- $group$rank
	left=%d
	while [ $left -gt 0 ] && kill -s 0 -- $group$rank; do sleep 1; left=$((left - 1)); done
	kill -s KILL -- $group$rank
}
`, max(1, int(grace.Seconds())))
	b.WriteString("exec 3<&0\n" +
		"lead= group=\n" + // with setsid the rank leads a process group, as it does here
		"if command -v setsid >/dev/null; then lead=setsid group=-; fi\n$lead ")
	for i, word := range program {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(quote(word))
	}
	// The watcher holds none of the rank's outputs, because the remote shell waits until
	// they are closed. Nor does the command that ends the rank's remaining processes,
	// which may have been asked before: it is a group of commands, because a function's
	// redirections keep the outputs open.
	b.WriteString(` </dev/null 3<&- &
rank=$!
{
	cat <&3
	end
} >/dev/null 2>&1 &
watcher=$!
exec 3<&-
{ wait $rank; } 2>/dev/null
code=$?
kill $watcher 2>/dev/null
if [ $group ] && kill -s 0 -- $group$rank 2>/dev/null; then { end; } </dev/null >/dev/null 2>&1 & fi
exit $code
`)
	script = b.String()
	// dd takes exactly these bytes and leaves standard input to the watcher.
	return fmt.Sprintf(`exec /bin/sh -c 'eval "$(dd bs=1 count=%d 2>/dev/null)"'`, len(script)), script
}

// quote makes one word of s for a POSIX shell.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// thread is a thread that starts processes and lives as long as they may: the signal for
// a parent's death is sent when the thread dies that forked.
type thread chan func()

func newThread() thread {
	t := make(thread)
	go func() {
		runtime.LockOSThread()
		for f := range t {
			f()
		}
	}()
	return t
}

func (t thread) do(f func() error) error {
	done := make(chan error)
	t <- func() { done <- f() }
	return <-done
}

func (t thread) close() { close(t) }

// unstarted says what to do about the program at path, whose start failed with err.
func unstarted(path string, err error) string {
	st, missing := os.Stat(path)
	switch {
	case missing == nil && st.IsDir():
		return "; it is a folder, expected a program"
	case missing == nil && errors.Is(err, fs.ErrPermission):
		return "; chmod +x lets it run"
	case missing == nil && errors.Is(err, fs.ErrNotExist):
		return "; it is there, but the interpreter that its first line names, or its loader, is not"
	case errors.Is(err, exec.ErrNotFound):
		return "; a program that is in no folder of $PATH needs its path, as ./" + path
	}
	return ""
}
