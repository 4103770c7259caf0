package launch

import (
	"bytes"
	"io"
	"sync"
)

// maxLine is how much of a line without an end is kept before it is passed on as a line
// of its own.
const maxLine = 64 << 10

// lines passes on whole lines, each in one write, with a prefix. Several of them share a
// destination and its lock, so that no line is torn by another's.
type lines struct {
	mu     *sync.Mutex
	to     io.Writer
	prefix string

	rest []byte // of a line whose end has not come
	out  []byte
}

// Write never fails: a rank must not die because its output is not read.
func (l *lines) Write(b []byte) (int, error) {
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

// line ends the line that rest begins.
func (l *lines) line(end []byte) {
	l.out = append(append(append(append(l.out, l.prefix...), l.rest...), end...), '\n')
	l.rest = l.rest[:0]
	if len(l.out) >= maxLine {
		l.flush()
	}
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
	if len(l.rest) > 0 {
		l.line(nil)
	}
	l.flush()
}
