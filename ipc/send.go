package ipc

import "context"

// Send sends a copy of m, and waits while the queue is full. Its errors are those of
// Reserve and Commit. The files stay the caller's.
func Send(ctx context.Context, c Conn, m Message) error {
	buf, err := c.Reserve(ctx, m.Kind, len(m.Body))
	if err != nil {
		return err
	}
	copy(buf, m.Body)
	return c.Commit(m.Files...)
}

// Trim gives the memory of the queue in which this end of c sends back to the machine, if
// the transport can and the queue was not used since the call before. The goroutine that
// sends calls it.
func Trim(c Conn) {
	if t, ok := c.(interface{ Trim() }); ok {
		t.Trim()
	}
}

// TrySend is Send without the wait: ErrFull when there is no room now.
func TrySend(c Conn, m Message) error {
	buf, err := c.TryReserve(m.Kind, len(m.Body))
	if err != nil {
		return err
	}
	copy(buf, m.Body)
	return c.Commit(m.Files...)
}
