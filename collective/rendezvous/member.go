package rendezvous

import (
	"bytes"
	"errors"
	"time"

	"github.com/ringside-go/ringside/ipc"
)

// member is a caller of the server: a rank, once it has joined. The server's lock is
// held.
type member struct {
	rank    uint32
	joined  bool
	conn    ipc.Conn      // nil for rank 0, the server's process
	deliver func(message) // rank 0's: takes a reply
	late    *time.Timer   // ends conn unless it joins in time

	incoming incoming
	out      []outgoing // messages that wait for room in conn
	bytes    int        // of these
	pending  int        // requests that wait for their answer
}

// send sends a message, or queues it until there is room. It never blocks. A rank that
// takes no replies is cut off before it holds too much memory.
func (m *member) send(kind, id uint32, fields []byte) {
	if m.conn == nil {
		m.deliver(message{kind, id, bytes.Clone(fields)})
		return
	}
	m.out = append(m.out, outgoing{message: message{kind, id, fields}})
	if m.bytes += len(fields) + 64; m.bytes > 2*maxReply {
		m.conn.Close()
	}
	m.flush()
}

func (m *member) fail(id uint32, e failure) { m.send(kindError, id, encode(&e)) }

func (m *member) value(id uint32, v []byte) { m.send(kindValue, id, v) }

// flush sends what the conn takes. A conn that has ended is noticed by its reader.
func (m *member) flush() {
	for len(m.out) > 0 {
		err := m.out[0].send(m.conn, m.conn.TryReserve)
		if errors.Is(err, ipc.ErrFull) {
			return
		}
		if err != nil {
			m.out, m.bytes = nil, 0
			return
		}
		m.bytes -= len(m.out[0].fields) + 64
		m.out = m.out[1:]
	}
}
