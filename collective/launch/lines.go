package launch

import (
	"bytes"
	"io"
	"sync"
	"time"
)

// maxLine is how much of a line without an end is kept before it is passed on as a line
// of its own.
const maxLine = 64 << 10

// newsFor is how long the last line is held back that others may write too.
const newsFor = time.Second

// lines passes on whole lines, each in one write, with a prefix. Several of them share a
// destination and its lock, so that no line is torn by another's.
type lines struct {
	mu     *sync.Mutex
	to     io.Writer
	prefix string

	// news reports whether a line may be one that other ranks write too. Such a line is
	// held back until another one comes, newsFor is over, or last takes it. nil: none is.
	news func(line []byte) bool

	own  sync.Mutex // guards the fields below
	rest []byte     // of a line whose end has not come
	out  []byte
	held []byte      // a line with its prefix and without its end; nil for none
	late *time.Timer // passes held on
}

// Write never fails: a rank must not die because its output is not read.
func (l *lines) Write(b []byte) (int, error) {
	l.own.Lock()
	defer l.own.Unlock()
	n := len(b)
	for len(b) > 0 {
		i := bytes.IndexByte(b, '\n')
		if i < 0 {
			l.rest = append(l.rest, b...)
			if len(l.rest) >= maxLine {
				l.line(nil)
			}
			break
		}
		l.line(b[:i])
		b = b[i+1:]
	}
	l.flush()
	return n, nil
}

// line ends the line that rest begins; own is held.
func (l *lines) line(end []byte) {
	l.release()
	l.rest = append(l.rest, end...)
	if l.news != nil && l.news(l.rest) {
		l.held = append([]byte(l.prefix), l.rest...)
		held := l.held
		l.late = time.AfterFunc(newsFor, func() {
			l.own.Lock()
			defer l.own.Unlock()
			if len(l.held) > 0 && &l.held[0] == &held[0] {
				l.release()
				l.flush()
			}
		})
	} else {
		l.out = append(append(append(l.out, l.prefix...), l.rest...), '\n')
	}
	l.rest = l.rest[:0]
	if len(l.out) >= maxLine {
		l.flush()
	}
}

// release puts the line that is held back among those that are passed on; own is held.
func (l *lines) release() {
	if l.held == nil {
		return
	}
	l.late.Stop()
	l.out = append(append(l.out, l.held...), '\n')
	l.held = nil
}

// last takes the line that is held back, after close: without its prefix, "" if there is
// none.
func (l *lines) last() string {
	l.own.Lock()
	defer l.own.Unlock()
	if l.held == nil {
		return ""
	}
	l.late.Stop()
	line := string(l.held[len(l.prefix):])
	l.held = nil
	return line
}

// pass passes on a line that last has taken.
func (l *lines) pass(line string) {
	l.own.Lock()
	defer l.own.Unlock()
	l.out = append(append(append(l.out, l.prefix...), line...), '\n')
	l.flush()
}

func (l *lines) flush() {
	if len(l.out) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	_, _ = l.to.Write(l.out)
	l.out = l.out[:0]
}

// close passes on the last line if it has no end.
func (l *lines) close() {
	l.own.Lock()
	defer l.own.Unlock()
	if len(l.rest) > 0 {
		l.line(nil)
	}
	l.flush()
}
