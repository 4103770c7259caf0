package rendezvous

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"
)

// A frame on the wire, numbers little-endian:
//
//	| length u32 of what follows | kind u8 | id u32 | body | MAC 16 bytes |
//
// The frames of the handshake (hello, challenge, refuse) have no MAC; join and all after it do. The id of a reply is its
// request's.
//
//	rank                                   rank 0
//	hello      magic, version, nonce  -->
//	                                  <--  challenge  magic, version, nonce, run, proof
//	join       rank, size, epoch      -->
//	                                  <--  welcome, or refuse with a code and a reason
//
// proof is HMAC-SHA256(secret, "store" nonces run); a rank proves that it knows the secret by the MAC of its join.
// History of version: 1, the first.
const (
	magic   = "ringside rendezvous\n"
	version = 1

	frameHeader = 9 // length, kind, id
	macBytes    = 16
	nonceBytes  = 32
	proofBytes  = sha256.Size
)

// Limits. A peer that exceeds one ends its connection.
const (
	MaxKey   = 1 << 10
	MaxValue = 1 << 20

	maxGreeting = 1 << 10             // bytes of a frame before the secret is proven
	maxRequest  = MaxValue + 2*MaxKey // of a request
	maxReply    = 64 << 20            // of a reply: all values of an AllGather
	maxStore    = 256 << 20           // of all keys and values together
	maxPending  = 1 << 10             // requests of a rank that wait at a time
	readStep    = 64 << 10            // memory is given to a frame as its bytes come, this much at first
)

type kind uint8

const (
	kindHello kind = iota + 1
	kindChallenge
	kindJoin
	kindWelcome
	kindRefuse
	kindSet
	kindGet
	kindWait
	kindAdd
	kindDelete
	kindGather
	kindBye
	kindValue  // reply: one value
	kindValues // reply: a value of each rank
	kindError  // reply: code and reason
)

// code is a reason to refuse, or of an error reply.
type code uint32

const (
	codeVersion code = iota + 1
	codeSecret
	codeDuplicate
	codeLeft // this rank was here and went: rank 0 is probably about to go too, and to come again
	codeSize
	codeEpoch
	codeNotFound
	codeFull
	codeTooLarge
	codeMissing
	codeBusy
)

// sentinel is the error that a code stands for.
func (c code) sentinel() error {
	switch c {
	case codeSecret:
		return ErrSecret
	case codeDuplicate, codeLeft:
		return ErrDuplicateRank
	case codeSize:
		return ErrWorldSize
	case codeEpoch:
		return ErrStale
	case codeNotFound:
		return ErrNotFound
	case codeFull, codeBusy:
		return ErrFull
	case codeTooLarge:
		return ErrTooLarge
	case codeMissing:
		return ErrMissing
	}
	return ErrProtocol
}

type frame struct {
	kind kind
	id   uint32
	body []byte
}

// seal makes or checks the MACs of one direction of a connection. The frames are counted, so that none can be left out,
// repeated or exchanged.
type seal struct {
	key []byte
	n   uint64
}

func (s *seal) next(f frame) []byte {
	var head [13]byte
	binary.LittleEndian.PutUint64(head[:], s.n)
	head[8] = byte(f.kind)
	binary.LittleEndian.PutUint32(head[9:], f.id)
	s.n++
	m := hmac.New(sha256.New, s.key)
	m.Write(head[:])
	m.Write(f.body)
	return m.Sum(nil)[:macBytes]
}

// writeFrame writes f in one piece, sealed unless s is nil.
func writeFrame(w io.Writer, f frame, s *seal) error {
	n := frameHeader - 4 + len(f.body)
	var mac []byte
	if s != nil {
		mac = s.next(f)
		n += macBytes
	}
	b := make([]byte, 0, 4+n)
	b = binary.LittleEndian.AppendUint32(b, uint32(n))
	b = append(b, byte(f.kind))
	b = binary.LittleEndian.AppendUint32(b, f.id)
	b = append(append(b, f.body...), mac...)
	_, err := w.Write(b)
	return err
}

// readFrame reads a frame of at most limit bytes, and checks its MAC unless s is nil. The error is io.EOF if the stream
// ended before it, ErrProtocol for what is no frame; one whose MAC is wrong is returned too, as what somebody claims.
func readFrame(r io.Reader, limit int, s *seal) (frame, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return frame{}, err
	}
	n := int(binary.LittleEndian.Uint32(head[:]))
	least := frameHeader - 4
	if s != nil {
		least += macBytes
	}
	if n < least || n > limit {
		return frame{}, fmt.Errorf("%w: a frame of %d bytes (%q), expected %d to %d", ErrProtocol, n, head[:], least, limit)
	}
	b := make([]byte, 0, min(n, readStep))
	for len(b) < n {
		at := len(b)
		b = append(b, make([]byte, min(n-at, max(at, readStep)))...)
		if _, err := io.ReadFull(r, b[at:]); err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return frame{}, err
		}
	}
	f := frame{kind: kind(b[0]), id: binary.LittleEndian.Uint32(b[1:]), body: b[frameHeader-4:]}
	if s != nil {
		cut := len(f.body) - macBytes
		mac := f.body[cut:]
		f.body = f.body[:cut:cut]
		if !hmac.Equal(mac, s.next(f)) {
			return f, fmt.Errorf("%w: a frame whose MAC is wrong", ErrProtocol)
		}
	}
	return f, nil
}

// fields reads the fields of a body; after a mistake all are zero and bad is set.
type fields struct {
	b   []byte
	bad bool
}

func (f *fields) take(n int) []byte {
	if f.bad || n < 0 || n > len(f.b) {
		f.bad = true
		return nil
	}
	out := f.b[:n:n]
	f.b = f.b[n:]
	return out
}

func (f *fields) u32() uint32 {
	if b := f.take(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (f *fields) u64() uint64 {
	if b := f.take(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// bytes reads a slice with its length before it.
func (f *fields) bytes() []byte { return f.take(int(f.u32())) }

// done reports whether the body was read to its end without a mistake.
func (f *fields) done() bool { return !f.bad && len(f.b) == 0 }

func appendBytes(b, x []byte) []byte {
	return append(binary.LittleEndian.AppendUint32(b, uint32(len(x))), x...)
}

// request is what a rank asks of the store; which fields count depends on the kind.
type request struct {
	key     string
	value   []byte        // set, gather
	delta   int64         // add
	timeout time.Duration // wait, gather; sent in milliseconds
	rank    uint32        // gather: of size
	size    uint32
}

func (q request) append(b []byte, k kind) []byte {
	b = appendBytes(b, []byte(q.key))
	switch k {
	case kindSet:
		b = appendBytes(b, q.value)
	case kindAdd:
		b = binary.LittleEndian.AppendUint64(b, uint64(q.delta))
	case kindWait:
		b = binary.LittleEndian.AppendUint32(b, uint32(q.timeout.Milliseconds()))
	case kindGather:
		b = binary.LittleEndian.AppendUint32(b, uint32(q.timeout.Milliseconds()))
		b = binary.LittleEndian.AppendUint32(b, q.rank)
		b = binary.LittleEndian.AppendUint32(b, q.size)
		b = appendBytes(b, q.value)
	}
	return b
}

// parseRequest is the inverse of append; the result's value lies in body.
func parseRequest(k kind, body []byte) (request, error) {
	f := fields{b: body}
	q := request{key: string(f.bytes())}
	switch k {
	case kindGet, kindDelete:
	case kindSet:
		q.value = f.bytes()
	case kindAdd:
		q.delta = int64(f.u64())
	case kindWait:
		q.timeout = time.Duration(f.u32()) * time.Millisecond
	case kindGather:
		q.timeout = time.Duration(f.u32()) * time.Millisecond
		q.rank, q.size = f.u32(), f.u32()
		q.value = f.bytes()
	default:
		return q, fmt.Errorf("%w: a frame of kind %d, expected a request", ErrProtocol, k)
	}
	switch {
	case !f.done():
		return q, fmt.Errorf("%w: a request of kind %d with %d bytes that are not one", ErrProtocol, k, len(body))
	case len(q.key) > MaxKey || len(q.value) > MaxValue:
		return q, fmt.Errorf("%w: a key of %d and a value of %d bytes, expected at most %d and %d",
			ErrTooLarge, len(q.key), len(q.value), MaxKey, MaxValue)
	case k == kindGather && (q.size == 0 || q.size > MaxSize || q.rank >= q.size || len(q.value) > maxGathered(int(q.size))):
		return q, fmt.Errorf("%w: %d bytes of rank %d of %d to gather, expected at most %d", ErrTooLarge, len(q.value), q.rank, q.size,
			maxGathered(int(max(q.size, 1))))
	}
	return q, nil
}

// maxGathered is the largest value of each of size ranks that AllGather takes: all of them fit in a reply.
func maxGathered(size int) int { return min(MaxValue, (maxReply-1024)/size-4) }

// failure is an error as it travels.
type failure struct {
	code  code
	text  string
	ranks []int // that are missing
}

func (e failure) append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(e.code))
	b = appendBytes(b, []byte(e.text))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(e.ranks)))
	for _, r := range e.ranks {
		b = binary.LittleEndian.AppendUint32(b, uint32(r))
	}
	return b
}

func parseFailure(body []byte) (failure, error) {
	f := fields{b: body}
	e := failure{code: code(f.u32()), text: string(f.bytes())}
	n := int(f.u32())
	if f.bad || n*4 != len(f.b) {
		return e, fmt.Errorf("%w: a refusal of %d bytes that is none", ErrProtocol, len(body))
	}
	for range n {
		e.ranks = append(e.ranks, int(f.u32()))
	}
	return e, nil
}

// parseValues reads the reply to a gather among size ranks; the values lie in body.
func parseValues(body []byte, size int) ([][]byte, error) {
	f := fields{b: body}
	out := make([][]byte, 0, size)
	for range size {
		out = append(out, f.bytes())
	}
	if !f.done() {
		return nil, fmt.Errorf("%w: %d bytes that are not the values of %d ranks", ErrProtocol, len(body), size)
	}
	return out, nil
}
