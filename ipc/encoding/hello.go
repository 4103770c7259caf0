package encoding

import (
	"encoding/binary"
	"fmt"
)

// Magic begins every greeting: "RSID".
const Magic uint32 = 'R' | 'S'<<8 | 'I'<<16 | 'D'<<24

// Kinds of greeting.
const (
	KindHello   uint32 = 0x100 // dialer → listener
	KindWelcome uint32 = 0x101 // listener → dialer: the connection is open
	KindRefuse  uint32 = 0x102 // listener → dialer: the connection is refused
	KindBusy    uint32 = 0x103 // listener → dialer: the connection has to wait
)

// MaxHandshake is the size of the largest greeting.
const MaxHandshake = MaxHandshakeFields + MaxText

// MaxHandshakeFields is the most bytes of a greeting without a refusal's text.
const MaxHandshakeFields = 512

// Hello is the first message on a connection: the dialer identifies itself.
//
//	magic uint32, kind uint32, version uint32, role uint8, pid uint32, start uint64,
//	layout uint32, ring bytes uint32, data bell uint32, room bell uint32, name text,
//	note text
//
// Magic, kind and version have the same places in every version.
type Hello struct {
	Version   uint32
	Role      uint8
	PID       uint32
	Start     uint64 // start of the process in clock ticks after boot; 0: not known
	Layout    uint32 // version of the queue's layout in shared memory; 0: there is none
	RingBytes uint32 // size of a queue; 0: the listener decides
	// offset of the bell for messages in the page that comes with the greeting
	DataBell uint32
	RoomBell uint32 // offset of the bell for room in the queue
	Name     string // at most MaxName bytes
	Note     string // any bytes, at most MaxNote, for the layer above; see ipc.Peer
}

// Welcome is the listener's answer that opens the connection. It has the fields of Hello;
// RingBytes is the size that both ends use.
type Welcome Hello

// Refuse is the listener's answer that ends the connection.
//
//	magic uint32, kind uint32, version uint32, reason uint32, text
type Refuse struct {
	Version uint32
	Reason  uint32
	Text    string // at most MaxText bytes, see CutText
}

// Busy is the listener's answer while it has no room for another connection. It comes at
// once and then every second, until the dialer's turn has come.
//
//	magic uint32, kind uint32, version uint32, before uint32
type Busy struct {
	Version uint32
	Before  uint32 // connections that come before this one
}

// Reasons to refuse.
const (
	RefuseVersion uint32 = 1 // another version
	RefuseUser    uint32 = 2 // another user
	RefuseBroken  uint32 = 3 // not a proper Hello
	RefuseBusy    uint32 = 4 // too many connections, or no memory for another
	RefuseSecret  uint32 = 5 // the dialer does not know the secret
)

const handshakeHeader = 12

// HandshakeKind returns the kind and version of a greeting of any version.
func HandshakeKind(src []byte) (kind, version uint32, err error) {
	if len(src) < handshakeHeader {
		return 0, 0, fmt.Errorf("%w: greeting of %d bytes, want at least %d", ErrMalformed, len(src), handshakeHeader)
	}
	if m := binary.LittleEndian.Uint32(src); m != Magic {
		return 0, 0, fmt.Errorf("%w: greeting begins with %#x, want %#x", ErrMalformed, m, Magic)
	}
	return binary.LittleEndian.Uint32(src[4:]), binary.LittleEndian.Uint32(src[8:]), nil
}

// handshake visits the fields that every greeting begins with.
func (w *Walk) handshake(kind uint32, version *uint32) {
	magic, k := Magic, kind
	if w.Parses() {
		got, _, err := HandshakeKind(w.buf)
		if err == nil && got != kind {
			err = fmt.Errorf("%w: %s has kind %#x, want %#x", ErrMalformed, w.name(), got, kind)
		}
		w.Abort(err)
	}
	w.U32("Magic", &magic)
	w.U32("Kind", &k)
	w.U32("Version", version)
}

func (m *Hello) walk(w *Walk, kind uint32) {
	w.handshake(kind, &m.Version)
	if w.Parses() && w.err == nil && m.Version != Version {
		w.Abort(fmt.Errorf("%w: %s of version %d, this is version %d", ErrVersion, w.name(), m.Version, Version))
	}
	w.U8("Role", &m.Role)
	w.U32("PID", &m.PID)
	w.U64("Start", &m.Start)
	w.U32("Layout", &m.Layout)
	w.U32("RingBytes", &m.RingBytes)
	w.U32("DataBell", &m.DataBell)
	w.U32("RoomBell", &m.RoomBell)
	w.Text("Name", &m.Name, MaxName)
	w.Text("Note", &m.Note, MaxNote)
}

func appendHello(dst []byte, kind uint32, m *Hello) []byte {
	w := Appending(dst)
	m.walk(&w, kind)
	return w.Appended()
}

func parseHello(w Walk, kind uint32, m *Hello) error {
	m.walk(&w, kind)
	return w.End()
}

// AppendHello appends m to dst.
func AppendHello(dst []byte, m *Hello) []byte { return appendHello(dst, KindHello, m) }

// AppendWelcome appends m to dst.
func AppendWelcome(dst []byte, m *Welcome) []byte { return appendHello(dst, KindWelcome, (*Hello)(m)) }

// ParseHello parses a Hello. The error is ErrVersion for one of another version; then
// only m.Version is set.
func ParseHello(src []byte, m *Hello) error { return parseHello(Parsing("Hello", src), KindHello, m) }

// ParseWelcome parses a Welcome, as ParseHello does.
func ParseWelcome(src []byte, m *Welcome) error {
	return parseHello(Parsing("Welcome", src), KindWelcome, (*Hello)(m))
}

func (m *Refuse) walk(w *Walk) {
	w.handshake(KindRefuse, &m.Version)
	w.U32("Reason", &m.Reason)
	w.Text("Text", &m.Text, MaxText)
}

// AppendRefuse appends m to dst.
func AppendRefuse(dst []byte, m *Refuse) []byte {
	w := Appending(dst)
	m.walk(&w)
	return w.Appended()
}

// ParseRefuse parses a Refuse of any version: its layout never changes.
func ParseRefuse(src []byte, m *Refuse) error {
	w := Parsing("Refuse", src)
	m.walk(&w)
	return w.End()
}

func (m *Busy) walk(w *Walk) {
	w.handshake(KindBusy, &m.Version)
	w.U32("Before", &m.Before)
}

// AppendBusy appends m to dst.
func AppendBusy(dst []byte, m *Busy) []byte {
	w := Appending(dst)
	m.walk(&w)
	return w.Appended()
}

// ParseBusy parses a Busy.
func ParseBusy(src []byte, m *Busy) error {
	w := Parsing("Busy", src)
	m.walk(&w)
	return w.End()
}
