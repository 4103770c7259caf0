package wire

import (
	"sync"

	"github.com/ringside-go/ringside/ipc/encoding"
)

// Message is a pointer to any message but Run, whose encoding needs a History.
type Message interface{ walk(w *encoding.Walk) }

// walks are reused because a Walk that is passed to an interface's method is allocated.
var walks = sync.Pool{New: func() any { return new(encoding.Walk) }}

// Append appends m to dst.
func Append(dst []byte, m Message) []byte {
	if done, ok := m.(*Done); ok {
		return appendDone(dst, done)
	}
	w := visit(encoding.Appending(dst), m)
	return w.Appended()
}

// Parse parses a message that Append wrote.
func Parse(src []byte, m Message) error {
	if done, ok := m.(*Done); ok {
		return parseDone(src, done)
	}
	w := visit(encoding.Parsing(m, src), m)
	return w.End()
}

// visit returns w after it has visited the fields of m.
func visit(w encoding.Walk, m Message) encoding.Walk {
	p := walks.Get().(*encoding.Walk)
	*p = w
	m.walk(p)
	w, *p = *p, encoding.Walk{}
	walks.Put(p)
	return w
}
