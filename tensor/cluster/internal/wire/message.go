package wire

import (
	"sync"

	"github.com/ringside-go/ringside/ipc/wire"
)

// Message is a pointer to any message but Run, whose encoding needs a History.
type Message interface{ walk(w *wire.Walk) }

// walks are reused because a Walk that is passed to an interface's method is allocated.
var walks = sync.Pool{New: func() any { return new(wire.Walk) }}

// Append appends m to dst.
func Append(dst []byte, m Message) []byte {
	if done, ok := m.(*Done); ok {
		return appendDone(dst, done)
	}
	w := visit(wire.Appending(dst), m)
	return w.Appended()
}

// Parse parses a message that Append wrote.
func Parse(src []byte, m Message) error {
	if done, ok := m.(*Done); ok {
		return parseDone(src, done)
	}
	w := visit(wire.Parsing(m, src), m)
	return w.End()
}

// visit returns w after it has visited the fields of m.
func visit(w wire.Walk, m Message) wire.Walk {
	p := walks.Get().(*wire.Walk)
	*p = w
	m.walk(p)
	w, *p = *p, wire.Walk{}
	walks.Put(p)
	return w
}
