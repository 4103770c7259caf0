package rendezvous

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/encoding"
)

// Between a rank and rank 0 the body of every message of the conn is:
//
//	| id uint32 | fields |
//
// The id of a reply is its request's. Fields that don't fit into one message go in
// pieces: messages of kindPiece with the first ones, then a message of the real kind with
// the rest.
//
//	rank                                          rank 0
//	join   version, rank, size, epoch, proof -->
//	                                         <--  welcome run, proof, or refuse code, text
//
// A proof is HMAC-SHA256(secret, label, the other fields of the message). net/tcp has
// made both ends prove before that they know the secret; ipc/local has not, it tells
// users apart.
//
// History of version: 1 frames and a handshake of its own; 2 messages of an ipc.Conn; 3
// fields as package encoding has them, the same in all requests, so that builds of 2 and
// 3 refuse each other with an error about the message instead of about the version.
const (
	version    = 3
	runBytes   = 32
	proofBytes = sha256.Size
)

// Limits. A peer that exceeds one ends its connection.
const (
	MaxKey   = 1 << 10
	MaxValue = 1 << 20

	ringBytes  = 64 << 10 // of a conn's queues: the messages are few and small
	maxPiece   = ringBytes/4 - 4
	maxRequest = MaxValue + 2*MaxKey // bytes of a request's fields
	maxReply   = 64 << 20            // of a reply's: all values of an AllGather
	maxStore   = 256 << 20           // of all keys and values together
	maxPending = 1 << 10             // requests of a rank that wait at a time
)

// Kinds of message.
const (
	kindPiece uint32 = iota
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

// code is the reason of a refusal or of an error reply.
type code uint32

const (
	codeVersion code = iota + 1
	codeSecret
	codeDuplicate
	codeLeft // this rank was here and left: rank 0 will probably leave and come again too
	codeSize
	codeEpoch
	codeNotFound
	codeFull
	codeTooLarge
	codeMissing
	codeBusy
)

// sentinel returns the error that a code stands for.
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

// message is a kind, an id and fields, whole.
type message struct {
	kind   uint32
	id     uint32
	fields []byte
}

// outgoing is a message that is being sent.
type outgoing struct {
	message
	sent int // bytes of fields
}

// send sends the pieces that are left, each in a message that reserve makes room for.
// After an error it may be called again.
func (m *outgoing) send(c ipc.Conn, reserve func(kind uint32, n int) ([]byte, error)) error {
	for {
		n := min(len(m.fields)-m.sent, maxPiece)
		kind := kindPiece
		if m.sent+n == len(m.fields) {
			kind = m.kind
		}
		buf, err := reserve(kind, 4+n)
		if err != nil {
			return err
		}
		binary.LittleEndian.PutUint32(buf, m.id)
		copy(buf[4:], m.fields[m.sent:m.sent+n])
		if err := c.Commit(); err != nil {
			return err
		}
		if m.sent += n; kind != kindPiece {
			return nil
		}
	}
}

// incoming joins the pieces of received messages. Memory grows with what has arrived.
type incoming struct{ fields []byte }

// take adds what m brings, copied, and reports whether a message is whole with it.
func (in *incoming) take(m ipc.Message, limit int) (out message, whole bool, err error) {
	if len(m.Body) < 4 || len(in.fields)+len(m.Body)-4 > limit {
		return out, false, fmt.Errorf("%w: message of kind %d with %d bytes after %d, expected 4 to %d in all",
			ErrProtocol, m.Kind, len(m.Body), len(in.fields), limit)
	}
	in.fields = append(in.fields, m.Body[4:]...)
	if m.Kind == kindPiece {
		return out, false, nil
	}
	out = message{m.Kind, binary.LittleEndian.Uint32(m.Body), in.fields}
	in.fields = nil
	return out, true, nil
}

// walker is a message that lists its fields.
type walker interface{ walk(w *encoding.Walk) }

// encode returns the fields of m.
func encode(m walker) []byte {
	w := encoding.Appending(nil)
	m.walk(&w)
	return w.Appended()
}

// parse is the inverse of encode. Slices of m lie in b.
func parse(b []byte, m walker) error {
	w := encoding.Parsing(m, b)
	m.walk(&w)
	if err := w.End(); err != nil {
		return fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	return nil
}

// Labels of the values derived from the secret.
const (
	labelConn    = "ringside rendezvous: conn"
	labelJoin    = "ringside rendezvous: join"
	labelWelcome = "ringside rendezvous: welcome"
	labelKey     = "ringside rendezvous: key of the run"
)

// derive returns HMAC-SHA256(secret, label, part).
func derive(secret []byte, label string, part []byte) []byte {
	m := hmac.New(sha256.New, secret)
	m.Write(binary.LittleEndian.AppendUint32(nil, uint32(len(label))))
	m.Write([]byte(label))
	m.Write(part)
	return m.Sum(nil)
}

// proven returns the fields of m with the proof that this end knows the secret.
func proven(m walker, secret []byte, label string) []byte {
	b := encode(m)
	return append(b, derive(secret, label, b)...)
}

// parseProven is the inverse of proven. With ErrSecret nothing proves m.
func parseProven(b []byte, m walker, secret []byte, label string) error {
	fields := b[:max(len(b)-proofBytes, 0)]
	if err := parse(fields, m); err != nil {
		return err
	}
	if !hmac.Equal(b[len(fields):], derive(secret, label, fields)) {
		return ErrSecret
	}
	return nil
}

// joining is a rank's first message: its claims about itself.
type joining struct {
	rank, size uint32
	epoch      uint64
}

func (j *joining) walk(w *encoding.Walk) {
	v := uint32(version)
	if w.U32("version", &v); v != version {
		w.Abort(fmt.Errorf("version %d, expected %d: all ranks must be of one build", v, version))
	}
	w.U32("rank", &j.rank)
	w.U32("size", &j.size)
	w.U64("epoch", &j.epoch)
}

// welcome is the answer to a joining: the name of the run.
type welcome struct{ run [runBytes]byte }

func (m *welcome) walk(w *encoding.Walk) { w.Fixed("run", m.run[:]) }

// request is a rank's question to the store; which fields count depends on the kind.
type request struct {
	key     string
	value   []byte // set, gather
	delta   uint64 // add: an int64
	timeout uint32 // wait, gather: milliseconds
	rank    uint32 // gather: of size
	size    uint32
}

func (q *request) walk(w *encoding.Walk) {
	w.Text("key", &q.key, MaxKey)
	w.Bytes("value", &q.value, MaxValue)
	w.U64("delta", &q.delta)
	w.U32("timeout", &q.timeout)
	w.U32("rank", &q.rank)
	w.U32("size", &q.size)
}

// maxGathered returns the largest value of each of size ranks that AllGather takes: all
// of them fit into a reply.
func maxGathered(size int) int { return min(MaxValue, (maxReply-1024)/size-4) }

// failure is an error as it travels.
type failure struct {
	code  code
	text  string
	ranks []int // that are missing
}

func (e *failure) walk(w *encoding.Walk) {
	w.U32("code", (*uint32)(&e.code))
	w.Text("text", &e.text, MaxValue)
	encoding.List(w, "ranks", &e.ranks, MaxSize, 1)
	for i := range e.ranks {
		r := uint32(e.ranks[i])
		w.Number("rank", &r, MaxSize)
		e.ranks[i] = int(r)
	}
}

// values are the reply to a gather, by rank.
type values [][]byte

func (v *values) walk(w *encoding.Walk) {
	encoding.List(w, "values", (*[][]byte)(v), MaxSize, 1)
	for i := range *v {
		w.Bytes("value", &(*v)[i], MaxValue)
	}
}

// number returns a value that is a number.
func number(n int64) []byte { return binary.LittleEndian.AppendUint64(nil, uint64(n)) }
