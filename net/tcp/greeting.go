package tcp

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/encoding"
)

// version of what is on the wire below the messages. Both ends must have the same.
//
//	1  first
//	2  checksums: in frames, in the header of a transfer and behind its bytes; the hello
//	   and the welcome of a conn say whether their end wants them
//	3  busy
const version = 3

const (
	greetingMagic  = "RSTC"
	greetingHeader = 8

	// maxGreeting is the longest greeting without its header: a refusal with all of its
	// text.
	maxGreeting = 256 + encoding.MaxHandshake

	nonceBytes = 32
	proofBytes = sha256.Size
	tokenBytes = 16
)

// Kinds of greeting. A number is never used twice.
const (
	kindHello     = 1
	kindChallenge = 2
	kindProof     = 3
	kindWelcome   = 4
	kindRefuse    = 5
	kindBusy      = 6 // any number of them, ahead of the welcome or refusal
)

// Purposes of a connection.
const (
	forMessages = 1
	forBulk     = 2
)

// Labels of the two proofs.
const (
	dialerLabel   = "ringside tcp dialer"
	listenerLabel = "ringside tcp listener"
)

// notRingside is what a peer is told that does not begin with greetingMagic.
const notRingside = "ringside: this port expects a greeting of ringside's own protocol\n"

// errAlien is heard when the peer speaks something else.
var errAlien = errors.New("no greeting of this protocol")

// token names a conn to the dialer of its bulk socket.
type token [tokenBytes]byte

// sums says whether an end wants checksums. There are none if neither end does.
const (
	noSums   = 0
	wantSums = 1
)

// hello is the first greeting.
type hello struct {
	nonce [nonceBytes]byte
	bulk  bool
	token token  // of bulk
	sums  uint8  // otherwise: noSums or wantSums,
	wire  []byte // and Hello of package encoding
}

func (h *hello) append(dst []byte) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, version)
	dst = append(dst, h.nonce[:]...)
	if h.bulk {
		return append(append(dst, forBulk), h.token[:]...)
	}
	return append(append(dst, forMessages, h.sums), h.wire...)
}

// parseHello reads a first greeting. The version is checked before anything that may
// differ between versions.
func parseHello(src []byte) (h hello, err error) {
	if len(src) < 4 {
		return h, fmt.Errorf("%w: hello of %d bytes", ipc.ErrCorrupt, len(src))
	}
	if v := binary.LittleEndian.Uint32(src); v != version {
		return h, fmt.Errorf("%w: version %d of the transport, this is %d", ipc.ErrVersion, v, version)
	}
	src = src[4:]
	if len(src) < nonceBytes+1 {
		return h, fmt.Errorf("%w: hello of %d bytes", ipc.ErrCorrupt, len(src))
	}
	src = src[copy(h.nonce[:], src):]
	purpose, src := src[0], src[1:]
	switch {
	case purpose == forMessages && len(src) > 0 && src[0] <= wantSums:
		h.sums, h.wire = src[0], src[1:]
	case purpose == forBulk && len(src) == tokenBytes:
		h.bulk = true
		copy(h.token[:], src)
	default:
		return h, fmt.Errorf("%w: hello for purpose %d with %d bytes", ipc.ErrCorrupt, purpose, len(src))
	}
	return h, nil
}

// welcome is the last greeting.
type welcome struct {
	proof [proofBytes]byte
	// of a conn:
	token token
	sums  uint8  // noSums, or wantSums if one of the ends wants them
	wire  []byte // Welcome of package encoding
}

func (w *welcome) append(dst []byte, bulk bool) []byte {
	dst = append(dst, w.proof[:]...)
	if bulk {
		return dst
	}
	return append(append(append(dst, w.token[:]...), w.sums), w.wire...)
}

func parseWelcome(src []byte, bulk bool) (w welcome, err error) {
	if bulk && len(src) != proofBytes || !bulk && len(src) < proofBytes+tokenBytes+1 {
		return w, fmt.Errorf("%w: welcome of %d bytes", ipc.ErrCorrupt, len(src))
	}
	src = src[copy(w.proof[:], src):]
	if bulk {
		return w, nil
	}
	src = src[copy(w.token[:], src):]
	w.sums, w.wire = src[0], src[1:]
	return w, nil
}

// greeter says and hears greetings on one connection, and keeps the hash of all of them.
type greeter struct {
	conn   io.ReadWriter
	secret []byte
	seen   hash.Hash
	before []byte                     // seen ahead of the last answer
	busy   func(*ipc.BusyError) error // hears that others come first
	buf    []byte
}

func newGreeter(conn io.ReadWriter, secret []byte) *greeter {
	return &greeter{conn: conn, secret: secret, seen: sha256.New(), busy: func(*ipc.BusyError) error { return nil }}
}

// say sends one greeting.
func (g *greeter) say(kind uint8, fields []byte) error {
	b := append(make([]byte, 0, greetingHeader+1+len(fields)), greetingMagic...)
	b = binary.LittleEndian.AppendUint32(b, uint32(1+len(fields)))
	b = append(append(b, kind), fields...)
	g.seen.Write(b)
	_, err := g.conn.Write(b)
	return err
}

// hear receives one greeting. Its fields are valid until the next. errAlien says that the
// peer speaks something else.
func (g *greeter) hear() (kind uint8, fields []byte, err error) {
	var h [greetingHeader]byte
	if _, err := io.ReadFull(g.conn, h[:len(greetingMagic)]); err != nil {
		return 0, nil, err
	}
	if beginsTLS(h[:]) {
		return 0, nil, fmt.Errorf("%w: %w: it speaks TLS, this end does not: %s", errAlien, ipc.ErrTLS, bothTLS)
	}
	if string(h[:len(greetingMagic)]) != greetingMagic {
		return 0, nil, fmt.Errorf("%w: it begins with %q", errAlien, h[:len(greetingMagic)])
	}
	if _, err := io.ReadFull(g.conn, h[len(greetingMagic):]); err != nil {
		return 0, nil, err
	}
	n := binary.LittleEndian.Uint32(h[len(greetingMagic):])
	if n < 1 || n > maxGreeting {
		return 0, nil, fmt.Errorf("%w: greeting of %d bytes, at most %d", ipc.ErrCorrupt, n, maxGreeting)
	}
	if g.buf == nil {
		g.buf = make([]byte, maxGreeting)
	}
	if _, err := io.ReadFull(g.conn, g.buf[:n]); err != nil {
		return 0, nil, err
	}
	g.seen.Write(h[:])
	g.seen.Write(g.buf[:n])
	return g.buf[0], g.buf[1:n], nil
}

// prove returns the proof of the end that label names, over the hash of all greetings so
// far and over more.
func prove(secret []byte, label string, seen, more []byte) (proof [proofBytes]byte) {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(label))
	mac.Write(seen)
	mac.Write(more)
	mac.Sum(proof[:0])
	return proof
}

// dial is the dialer's half: it says hello and returns the listener's welcome, whose
// proof holds.
func (g *greeter) dial(h *hello) (w welcome, err error) {
	rand.Read(h.nonce[:])
	if err := g.say(kindHello, h.append(nil)); err != nil {
		return w, err
	}
	nonce, err := g.answer(kindChallenge)
	if err != nil {
		return w, err
	}
	if len(nonce) != nonceBytes {
		return w, fmt.Errorf("%w: challenge of %d bytes, expected %d", ipc.ErrCorrupt, len(nonce), nonceBytes)
	}
	proof := prove(g.secret, dialerLabel, g.seen.Sum(nil), nil)
	if err := g.say(kindProof, proof[:]); err != nil {
		return w, err
	}
	fields, err := g.answer(kindWelcome)
	if err != nil {
		return w, err
	}
	if w, err = parseWelcome(fields, h.bulk); err != nil {
		return w, err
	}
	// the welcome's proof covers what was before it, and its other fields
	if want := prove(g.secret, listenerLabel, g.before, fields[proofBytes:]); !hmac.Equal(want[:], w.proof[:]) {
		return w, fmt.Errorf("%w: the listener does not know ours", ipc.ErrSecret)
	}
	return w, nil
}

// answer hears a greeting of one kind, or the refusal instead. Ahead of a welcome the
// listener may say any number of times that it is busy.
func (g *greeter) answer(want uint8) ([]byte, error) {
	g.before = g.seen.Sum(nil)
	kind, fields, err := g.hear()
	for err == nil && kind == kindBusy && want == kindWelcome {
		b := ipc.ParseBusy(fields)
		if b == nil {
			return nil, fmt.Errorf("%w: busy of %d bytes", ipc.ErrCorrupt, len(fields))
		}
		if err := g.busy(b); err != nil {
			return nil, err
		}
		g.before = g.seen.Sum(nil)
		kind, fields, err = g.hear()
	}
	switch {
	case err != nil:
		return nil, err
	case kind == want:
		return fields, nil
	case kind != kindRefuse:
		return nil, fmt.Errorf("%w: greeting of kind %d, expected %d", ipc.ErrCorrupt, kind, want)
	}
	if _, err = ipc.ParseWelcome(fields); err == nil {
		err = fmt.Errorf("%w: a Welcome in place of a Refuse", ipc.ErrCorrupt)
	}
	return nil, err
}

// refuse tells the peer why it is not let in, as far as it listens.
func (g *greeter) refuse(reason uint32, why error) {
	m := encoding.Refuse{Version: encoding.Version, Reason: reason, Text: encoding.CutText(why.Error())}
	_ = g.say(kindRefuse, encoding.AppendRefuse(nil, &m))
}
