package wire

// Transfer is the body of the messages between a client and a worker that share no memory, on the conn of their own. Each is about a
// block, whose bytes go beside the messages (ipc.Bulk), one transfer after the other in each direction, tagged with a
// number that counts them from 0:
//
//	Push    client → worker  the block of an upload comes next from here
//	Pushed  worker → client  it has arrived; pushes are answered in their order
//	Pull    client → worker  send the block of a result that is leased to this session
//
//	session uint64, handle
type Transfer struct {
	Session uint64
	Handle  Handle // of the block, as it is called where it came from
}

// TransferBytes is what AppendTransfer writes.
const TransferBytes = SessionBytes + HandleBytes

// AppendTransfer appends m to dst.
func AppendTransfer(dst []byte, m *Transfer) []byte {
	return m.Handle.Append(appendU64(dst, m.Session))
}

// Size is the number of bytes AppendTransfer writes.
func (m *Transfer) Size() int { return TransferBytes }

// ParseTransfer reads a message that AppendTransfer wrote.
func ParseTransfer(src []byte, m *Transfer) error {
	p := parser{msg: "Transfer", src: src}
	m.Session = p.u64("Session")
	m.Handle = p.handle("Handle")
	return p.end()
}
