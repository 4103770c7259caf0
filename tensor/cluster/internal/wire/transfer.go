package wire

import "github.com/ringside-go/ringside/ipc/encoding"

// Transfer is the body of the messages between a client and a worker that share no
// memory, on a connection of their own. Each is about one block. The block's bytes go
// beside the messages (ipc.Bulk), one transfer after the other in each direction, tagged
// with a number that counts them from 0:
//
//	Push    client → worker  the block of an upload comes next from here
//	Pushed  worker → client  it has arrived; pushes are answered in their order
//	Pull    client → worker  send the block of a result that is leased to this session
//
//	session uint64, handle
type Transfer struct {
	Session uint64
	Handle  Handle // of the block, as its owner names it
}

func (m *Transfer) walk(w *encoding.Walk) {
	w.U64("Session", &m.Session)
	w.Handle("Handle", &m.Handle)
}
