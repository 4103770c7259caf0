package command

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ringside-go/ringside/tensor/train"
)

// progress shows how a training run goes: one line, redrawn, on a terminal; a line now
// and then elsewhere.
type progress struct {
	w     io.Writer
	label string // before every line; may be empty
	term  bool
	width int
	every time.Duration // between two lines
	next  time.Time
	now   func() time.Time
	drawn bool // a line without an end stands on the terminal
}

const (
	termEvery  = 100 * time.Millisecond
	plainEvery = 5 * time.Second
)

func newProgress(w io.Writer, label string) *progress {
	p := &progress{w: w, label: label, every: plainEvery, now: time.Now}
	if cols, ok := redraws(w); ok {
		// Without the label there is room for the bar.
		p.term, p.width, p.every, p.label = true, cols, termEvery, ""
	}
	return p
}

// terminal reports whether w is one, and its width.
func terminal(w io.Writer) (cols int, ok bool) {
	f, isFile := w.(*os.File)
	if !isFile {
		return 0, false
	}
	if _, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS); err != nil {
		return 0, false
	}
	cols = 80
	if ws, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ); err == nil && ws.Col > 0 {
		cols = int(ws.Col)
	}
	return cols, true
}

// redraws reports whether a line of w can be drawn over, and its width. A terminal whose
// TERM is dumb, as in an editor, shows escape sequences as text.
func redraws(w io.Writer) (cols int, ok bool) {
	cols, ok = terminal(w)
	return cols, ok && os.Getenv("TERM") != "dumb"
}

// show is called after every step whose loss is known.
func (p *progress) show(s train.Progress) {
	now := p.now()
	if now.Before(p.next) && s.Step != s.Steps {
		return
	}
	p.next = now.Add(p.every)
	text := fmt.Sprintf("step %d/%d  loss %.4f  %s %s/s  %s left", s.Step, s.Steps, s.Loss, count(s.Rate), s.Unit, s.Left.Round(time.Second))
	if p.label != "" {
		text = p.label + ": " + text
	}
	if !p.term {
		fmt.Fprintln(p.w, text)
		return
	}
	fmt.Fprint(p.w, "\r\x1b[K", bar(p.width-len(text)-1, s.Step, s.Steps), text)
	p.drawn = true
}

// end leaves the last line standing.
func (p *progress) end() {
	if p.drawn {
		fmt.Fprintln(p.w)
		p.drawn = false
	}
}

// bar draws [=====>    ] and a space in at most width columns; empty if there is no room.
func bar(width, done, all int) string {
	n := min(width-3, 40)
	if n < 8 || all <= 0 {
		return ""
	}
	full := n * min(done, all) / all
	head := ""
	if full < n {
		head = ">"
	}
	return "[" + strings.Repeat("=", full) + head + strings.Repeat(" ", n-full-len(head)) + "] "
}

// count is a number as people read it.
func count(x float64) string {
	switch {
	case x >= 1e9:
		return fmt.Sprintf("%.1fG", x/1e9)
	case x >= 1e6:
		return fmt.Sprintf("%.1fM", x/1e6)
	case x >= 1e3:
		return fmt.Sprintf("%.1fk", x/1e3)
	}
	return fmt.Sprintf("%.0f", x)
}
