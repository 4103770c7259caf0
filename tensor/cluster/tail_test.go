package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
)

// TestTail: an error has the lines that a child wrote shortly before its end, whole and
// once, and all that it wrote was passed on.
func TestTail(t *testing.T) {
	type said struct {
		after time.Duration // the one before
		text  string
	}
	long := strings.Repeat("x", lastWords-10)
	for name, c := range map[string]struct {
		said  []said
		words string
	}{
		"nothing":            {nil, ""},
		"old":                {[]said{{0, "slow\n"}, {0, "slower\n"}, {2 * lastWhile, ""}}, ""},
		"old and new":        {[]said{{0, "slow\n"}, {2 * lastWhile, "panic: x\n\ngoroutine 1\n"}}, "panic: x\n\ngoroutine 1"},
		"in parts":           {[]said{{0, "pan"}, {2 * lastWhile, "ic: x"}, {0, "y\nz"}}, "panic: xy\nz"},
		"again and again":    {[]said{{0, "full\nfull\n"}, {0, "full\nend\nfull\n"}}, "full\nend\nfull"},
		"more than fits":     {[]said{{0, "of the beginning\n"}, {0, long}, {0, "\nend\n"}}, long + "\nend"},
		"a line of too much": {[]said{{0, "a\nb" + long + "0123456789c"}}, long[1:] + "0123456789c"},
		"not text":           {[]said{{0, "a\xffb\n"}}, "a?b"},
	} {
		now, passed, all := time.Unix(0, 0), new(bytes.Buffer), ""
		l := &tail{to: passed, now: func() time.Time { return now }}
		for _, s := range c.said {
			now = now.Add(s.after)
			if n, err := l.Write([]byte(s.text)); n != len(s.text) || err != nil {
				t.Errorf("%s: %d, %v", name, n, err)
			}
			all += s.text
		}
		if got := l.words(now.Add(-lastWhile)); got != c.words {
			t.Errorf("%s: %q, expected %q", name, got, c.words)
		}
		if passed.String() != all {
			t.Errorf("%s: %q was passed on of %q", name, passed, all)
		}
		want := "signal: killed"
		if c.words != "" {
			want += "; it said: " + c.words
		}
		if got := ended(errors.New("signal: killed"), l); fmt.Sprint(got) != want {
			t.Errorf("%s: %q, expected %q", name, got, want)
		}
	}
}

// TestTailOfAHeldTerminal: a child's last words are known while the other writer takes
// none of them.
func TestTailOfAHeldTerminal(t *testing.T) {
	r, w := io.Pipe()
	l := &tail{to: w, now: time.Now}
	over := make(chan error)
	go func() {
		_, err := l.Write([]byte("panic: x\n"))
		over <- err
	}()
	for l.words(time.Time{}) != "panic: x" {
		select {
		case err := <-over:
			t.Fatalf("the write is over: %v", err)
		default:
		}
	}
	r.Close()
	if err := <-over; !errors.Is(err, io.ErrClosedPipe) {
		t.Error(err)
	}
}
