package command

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/spf13/cobra"
)

const (
	// steadyBytes is how much is kept for a reader of standard error that reads nothing.
	steadyBytes = 64 << 10

	// steadyEnd is how long a command that ends waits for that reader.
	steadyEnd = time.Second
)

// serving returns run, of a command that others depend on, with a standard error that
// makes it wait for no reader from ready on: a pager, a terminal that is held, a program
// that hangs.
func serving(run func(*cobra.Command, []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		w := &steadyWriter{to: cmd.ErrOrStderr()}
		defer w.end(steadyEnd)
		cmd.SetErr(w)
		if err := logsFrom(cmd); err != nil {
			return err
		}
		return run(cmd, args)
	}
}

// ready is called when a command of serving is about to serve.
func ready(cmd *cobra.Command) {
	if w, ok := cmd.ErrOrStderr().(*steadyWriter); ok {
		w.begin()
	}
}

// steadyWriter passes on what is written to it: at once until begin, and then on a
// goroutine of its own. Where too much waits, it drops what comes, and says so when the
// reader goes on. Any goroutine may call any method.
type steadyWriter struct {
	out sync.Mutex // held while to is written to
	to  io.Writer

	mu   sync.Mutex    // guards the fields below; it is held for no write
	on   bool          // begin was called
	held []byte        // not yet passed on
	lost int           // writes after held
	done chan struct{} // of the goroutine that passes on; nil: none runs
}

// begin has no write wait from now on. It does not wait for one that does.
func (w *steadyWriter) begin() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.on = true
}

// Write implements io.Writer. Behind begin it never waits, and returns no error of the
// reader.
func (w *steadyWriter) Write(b []byte) (int, error) {
	w.mu.Lock()
	if !w.on {
		w.mu.Unlock()
		w.out.Lock()
		defer w.out.Unlock()
		return w.to.Write(b)
	}
	defer w.mu.Unlock()
	if len(w.held) > 0 && len(w.held)+len(b) > steadyBytes {
		w.lost++
		return len(b), nil
	}
	w.held = append(w.held, b...)
	if w.done == nil {
		w.done = make(chan struct{})
		go w.pass()
	}
	return len(b), nil
}

// pass passes on all that is held.
func (w *steadyWriter) pass() {
	for {
		w.mu.Lock()
		b, lost := w.held, w.lost
		w.held, w.lost = nil, 0
		if len(b) == 0 {
			close(w.done)
			w.done = nil
			w.mu.Unlock()
			return
		}
		w.mu.Unlock()
		if lost > 0 {
			if b[len(b)-1] != '\n' { // of a process that is not done with its line
				b = append(b, '\n')
			}
			b = fmt.Appendf(b, "%d messages are lost: standard error was not read\n", lost)
		}
		w.out.Lock()
		_, _ = w.to.Write(b) // nowhere is left to report an error to
		w.out.Unlock()
	}
}

// end waits until all is passed on, for d at most.
func (w *steadyWriter) end(d time.Duration) {
	w.mu.Lock()
	done := w.done
	w.mu.Unlock()
	if done == nil {
		return
	}
	select {
	case <-done:
	case <-time.After(d):
	}
}
