package client

import (
	"container/list"

	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
)

// Bounds of what the worker is made to remember, well within its own.
const (
	maxPrograms     = 256
	maxProgramBytes = 16 << 20
)

// mirror is which programs the worker knows, those used longest ago last.
type mirror struct {
	max   int       // most programs
	order list.List // of *known
	known map[wire.Hash]*list.Element
	bytes int
}

type known struct {
	hash  wire.Hash
	bytes int
}

// use reports whether the worker knows the program, and notes the use.
func (m *mirror) use(h wire.Hash) bool {
	at := m.known[h]
	if at != nil {
		m.order.MoveToFront(at)
	}
	return at != nil
}

// add notes a program that was sent, and appends to forget the programs beyond the
// bounds.
func (m *mirror) add(h wire.Hash, bytes int, forget []wire.Hash) []wire.Hash {
	if m.known == nil {
		m.known = map[wire.Hash]*list.Element{}
	}
	m.known[h] = m.order.PushFront(&known{h, bytes})
	m.bytes += bytes
	for m.order.Len() > m.max || m.bytes > maxProgramBytes && m.order.Len() > 1 {
		old := m.order.Remove(m.order.Back()).(*known)
		delete(m.known, old.hash)
		m.bytes -= old.bytes
		forget = append(forget, old.hash)
	}
	return forget
}
