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

// TrySend is Send without the wait: ErrFull when there is no room now.
func TrySend(c Conn, m Message) error {
	buf, err := c.TryReserve(m.Kind, len(m.Body))
	if err != nil {
		return err
	}
	copy(buf, m.Body)
	return c.Commit(m.Files...)
}
