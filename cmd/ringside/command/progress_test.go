package command

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ringside-go/ringside/tensor/train"
)

func TestProgressLines(t *testing.T) {
	var out bytes.Buffer
	p := newProgress(&out, "m")
	now := time.Unix(0, 0)
	p.now = func() time.Time { return now }
	for step := 1; step <= 100; step++ {
		p.show(train.Progress{Step: step, Steps: 100, Loss: 1.5, Rate: 12345, Unit: "tokens", Left: 61 * time.Second})
		now = now.Add(200 * time.Millisecond)
	}
	p.end()
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 5 { // steps 1, 26, 51, 76 and the last
		t.Errorf("%d lines, want 5:\n%s", len(lines), out.String())
	}
	if want := "m: step 100/100  loss 1.5000  12.3k tokens/s  1m1s left"; lines[len(lines)-1] != want {
		t.Errorf("last line %q, want %q", lines[len(lines)-1], want)
	}
	if strings.ContainsAny(out.String(), "\r\x1b") {
		t.Errorf("control characters in what is no terminal: %q", out.String())
	}
}

func TestProgressBar(t *testing.T) {
	for _, c := range []struct {
		width, done, all int
		want             string
	}{
		{13, 0, 10, "[>         ] "},
		{13, 5, 10, "[=====>    ] "},
		{13, 10, 10, "[==========] "},
		{13, 20, 10, "[==========] "},
		{9, 5, 10, ""},
		{13, 5, 0, ""},
	} {
		if got := bar(c.width, c.done, c.all); got != c.want {
			t.Errorf("bar(%d, %d, %d) = %q, want %q", c.width, c.done, c.all, got, c.want)
		}
	}
}

func TestProgressOnTerminal(t *testing.T) {
	var out bytes.Buffer
	p := newProgress(&out, "")
	p.term, p.width = true, 100
	p.show(train.Progress{Step: 1, Steps: 2, Unit: "images"})
	p.end()
	p.end()
	if s := out.String(); !strings.HasPrefix(s, "\r\x1b[K[") || strings.Count(s, "\n") != 1 {
		t.Errorf("%q, want a line drawn over and ended once", s)
	}
}

// TestProgressOnDumbTerminal: lines on a terminal without escape sequences are those of a
// file.
func TestProgressOnDumbTerminal(t *testing.T) {
	pty, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer pty.Close()
	for _, c := range []struct {
		term   string
		redraw bool
	}{{"xterm", true}, {"dumb", false}} {
		t.Setenv("TERM", c.term)
		if p := newProgress(pty, "m"); p.term != c.redraw {
			t.Errorf("TERM=%s: draws over lines: %v, expected %v", c.term, p.term, c.redraw)
		}
	}
}
