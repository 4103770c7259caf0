package wire

import (
	"encoding/binary"
	"fmt"
)

// Magic begins every handshake message: "RSID".
const Magic uint32 = 'R' | 'S'<<8 | 'I'<<16 | 'D'<<24

// Kinds of handshake message; they travel before there is a conn.
const (
	KindHello   uint32 = 0x100 // who dials → who listens
	KindWelcome uint32 = 0x101 // the answer: come in
	KindRefuse  uint32 = 0x102 // the answer: stay out
)

// MaxHandshake is the largest handshake message.
const MaxHandshake = MaxHandshakeFields + MaxText

// MaxHandshakeFields is what a handshake message takes without a refusal's text.
const MaxHandshakeFields = 512

// Hello is the first message on a connection: who dials says who it is.
//
//	magic uint32, kind uint32, version uint32, role uint8, pid uint32, start uint64,
//	layout uint32, ring bytes uint32, data bell uint32, room bell uint32, name text
//
// Magic, kind and version stay where they are in every version to come.
type Hello struct {
	Version   uint32
	Role      uint8
	PID       uint32
	Start     uint64 // start of the process in clock ticks after boot; 0 if not known
	Layout    uint32 // version of the queue's layout in shared memory; 0 where there is none
	RingBytes uint32 // size of a queue; 0: as the other end likes
	DataBell  uint32 // where in the page of bells that comes along the one for messages is
	RoomBell  uint32 // and the one for room in the queue
	Name      string
}

// Welcome is the answer that opens the conn, with the same fields said by who listens;
// RingBytes is what both use.
type Welcome Hello

// Refuse is the answer that does not.
//
//	magic uint32, kind uint32, version uint32, reason uint32, text
type Refuse struct {
	Version uint32
	Reason  uint32
	Text    string
}

// Reasons to refuse.
const (
	RefuseVersion uint32 = 1 // another version
	RefuseUser    uint32 = 2 // not this user
	RefuseBroken  uint32 = 3 // no proper Hello
	RefuseBusy    uint32 = 4 // too many conns, or no memory for another
	RefuseSecret  uint32 = 5 // does not know the secret; for transports that have one
)

const handshakeHeader = 12

func appendHandshake(dst []byte, kind, version uint32) []byte {
	return appendU32(appendU32(appendU32(dst, Magic), kind), version)
}

// HandshakeKind returns the kind and version of a handshake message of any version.
func HandshakeKind(src []byte) (kind, version uint32, err error) {
	if len(src) < handshakeHeader {
		return 0, 0, fmt.Errorf("%w: handshake of %d bytes, at least %d expected", ErrMalformed, len(src), handshakeHeader)
	}
	if m := binary.LittleEndian.Uint32(src); m != Magic {
		return 0, 0, fmt.Errorf("%w: handshake begins with %#x, not %#x", ErrMalformed, m, Magic)
	}
	return binary.LittleEndian.Uint32(src[4:]), binary.LittleEndian.Uint32(src[8:]), nil
}

func (p *parser) handshake(kind uint32) uint32 {
	k, v, err := HandshakeKind(p.src)
	if err == nil && k != kind {
		err = fmt.Errorf("%w: %s has kind %#x, not %#x", ErrMalformed, p.msg, k, kind)
	}
	p.off, p.err = handshakeHeader, err
	return v
}

// AppendHello appends m to dst. Name may have at most MaxName bytes.
func AppendHello(dst []byte, m *Hello) []byte { return appendHello(dst, KindHello, m) }

// AppendWelcome appends m to dst.
func AppendWelcome(dst []byte, m *Welcome) []byte { return appendHello(dst, KindWelcome, (*Hello)(m)) }

func appendHello(dst []byte, kind uint32, m *Hello) []byte {
	dst = appendHandshake(dst, kind, m.Version)
	dst = append(dst, m.Role)
	dst = appendU32(dst, m.PID)
	dst = appendU64(dst, m.Start)
	dst = appendU32(dst, m.Layout)
	dst = appendU32(dst, m.RingBytes)
	dst = appendU32(dst, m.DataBell)
	dst = appendU32(dst, m.RoomBell)
	return appendText(dst, m.Name)
}

// Size is the number of bytes AppendHello writes.
func (m *Hello) Size() int { return handshakeHeader + 1 + 4 + 8 + 4*4 + sizeText(m.Name) }

// Size is the number of bytes AppendWelcome writes.
func (m *Welcome) Size() int { return (*Hello)(m).Size() }

// ParseHello reads a Hello. Another version than this build's is ErrVersion, with
// m.Version filled in and nothing else.
func ParseHello(src []byte, m *Hello) error { return parseHello("Hello", KindHello, src, m) }

// ParseWelcome reads a Welcome, as ParseHello does.
func ParseWelcome(src []byte, m *Welcome) error {
	return parseHello("Welcome", KindWelcome, src, (*Hello)(m))
}

func parseHello(name string, kind uint32, src []byte, m *Hello) error {
	p := parser{msg: name, src: src}
	*m = Hello{Version: p.handshake(kind)}
	if p.err != nil {
		return p.err
	}
	if m.Version != Version {
		return fmt.Errorf("%w: %s of version %d, this is version %d", ErrVersion, name, m.Version, Version)
	}
	m.Role = p.u8("Role")
	m.PID = p.u32("PID")
	m.Start = p.u64("Start")
	m.Layout = p.u32("Layout")
	m.RingBytes = p.u32("RingBytes")
	m.DataBell = p.u32("DataBell")
	m.RoomBell = p.u32("RoomBell")
	m.Name = p.text("Name", MaxName)
	return p.end()
}

// AppendRefuse appends m to dst. Text may have at most MaxText bytes (see CutText).
func AppendRefuse(dst []byte, m *Refuse) []byte {
	dst = appendHandshake(dst, KindRefuse, m.Version)
	dst = appendU32(dst, m.Reason)
	return appendText(dst, m.Text)
}

// Size is the number of bytes AppendRefuse writes.
func (m *Refuse) Size() int { return handshakeHeader + 4 + sizeText(m.Text) }

// ParseRefuse reads a Refuse of any version: its layout never changes.
func ParseRefuse(src []byte, m *Refuse) error {
	p := parser{msg: "Refuse", src: src}
	m.Version = p.handshake(KindRefuse)
	m.Reason = p.u32("Reason")
	m.Text = p.text("Text", MaxText)
	return p.end()
}
