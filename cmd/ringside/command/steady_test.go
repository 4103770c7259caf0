package command

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ringside-go/ringside/tensor/cluster/client"
)

// TestSteadyWriter has a reader that reads nothing: no write waits. When it goes on it
// gets what was written first, whole and in order, how much is lost, and all that comes
// then.
func TestSteadyWriter(t *testing.T) {
	r, to := io.Pipe()
	w := &steadyWriter{to: to}
	first := make(chan string)
	go func() {
		b := make([]byte, 10)
		n, _ := r.Read(b)
		first <- string(b[:n])
	}()
	if n, err := io.WriteString(w, "at once\n"); n != 8 || err != nil {
		t.Fatalf("%d, %v", n, err)
	}
	if got := <-first; got != "at once\n" {
		t.Errorf("%q is read first", got)
	}
	w.begin()
	line := func(i int) string { return fmt.Sprintf("%06d%s\n", i, strings.Repeat(".", 93)) }
	const lines, kept = 3 * steadyBytes / 100, 1 + steadyBytes/100
	for i := range lines {
		if n, err := io.WriteString(w, line(i)); n != 100 || err != nil {
			t.Fatalf("%d, %v", n, err)
		}
		if i == 0 { // the reader has read a byte of it, and no more
			if _, err := r.Read(make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
		}
	}
	w.end(0) // it does not wait either
	got := make(chan []byte)
	go func() {
		all, _ := io.ReadAll(r)
		got <- all
	}()
	w.end(time.Minute)
	long := strings.Repeat("x", 2*steadyBytes) + "\n"
	_, _ = io.WriteString(w, long)
	w.end(time.Minute)
	to.Close()
	text := "0" + string(<-got)
	var want strings.Builder
	for i := range kept {
		want.WriteString(line(i))
	}
	fmt.Fprintf(&want, "%d messages are lost: standard error was not read\n%s", lines-kept, long)
	if text != want.String() {
		t.Errorf("%d lines are kept, expected %d of %d; %.200q", strings.Count(text, "...\n"), kept, lines, strings.TrimLeft(text, "0123456789.\n"))
	}
}

// TestSteadyWriterBegins: begin waits for no write that waits already, and that one stays
// the first. A count of lost messages has a line of its own.
func TestSteadyWriterBegins(t *testing.T) {
	r, to := io.Pipe()
	w := &steadyWriter{to: to}
	over := make(chan error)
	go func() {
		_, err := io.WriteString(w, "first\n")
		over <- err
	}()
	if _, err := r.Read(make([]byte, 1)); err != nil { // it waits
		t.Fatal(err)
	}
	w.begin()
	_, _ = io.WriteString(w, "second")
	for w.len() > 0 { // until the goroutine that passes on has it
		runtime.Gosched()
	}
	for _, s := range []string{strings.Repeat("x", steadyBytes), "lost"} {
		_, _ = io.WriteString(w, s)
	}
	got := make(chan []byte)
	go func() {
		all, _ := io.ReadAll(r)
		got <- all
	}()
	if err := <-over; err != nil {
		t.Error(err)
	}
	w.end(time.Minute)
	to.Close()
	rest := string(<-got)
	want := "irst\nsecond" + strings.Repeat("x", steadyBytes) + "\n1 messages are lost: standard error was not read\n"
	if rest != want {
		t.Errorf("%d bytes, %.40q to %q", len(rest), rest, rest[max(0, len(rest)-80):])
	}
}

// len returns how many bytes are held.
func (w *steadyWriter) len() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.held)
}

// TestUnreadLog has a dispatcher log more than a pipe and the dispatcher keep, and
// nothing reads it: it answers all the same, and says how much is lost when it ends.
func TestUnreadLog(t *testing.T) {
	runtimeDir(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := unix.FcntlInt(w.Fd(), unix.F_SETPIPE_SZ, 4096); err != nil {
		t.Fatal(err)
	}
	addr := filepath.Join(t.TempDir(), "d")
	cmd := ringside(t, "dispatcher", "--listen", addr, "--log-level", "debug")
	cmd.Stderr = w
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	w.Close()
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for i := range steadyBytes / 100 { // each causes two lines of more than 100 bytes
		if _, err := client.Status(ctx, nil, addr); err != nil {
			t.Fatalf("the dispatcher was asked %d times: %v", i+1, err)
		}
	}
	_ = cmd.Process.Signal(syscall.SIGTERM)
	var text bytes.Buffer
	if _, err := text.ReadFrom(r); err != nil {
		t.Error(err)
	}
	if !regexp.MustCompile(`\n\d+ messages are lost: standard error was not read\n`).Match(text.Bytes()) {
		t.Errorf("no word about lost messages: ...%s", text.Bytes()[max(text.Len()-500, 0):])
	}
	_ = cmd.Wait()
}
