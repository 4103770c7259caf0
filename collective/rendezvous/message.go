package rendezvous

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/ringside-go/ringside/ipc"
)

// Between a rank and rank 0 the body of every message of the conn is, little endian:
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
// History of version: 1 frames and a handshake of its own; 2 messages of an ipc.Conn.
const (
	version    = 2
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

// fields reads the fields of a message; after a mistake all are zero and bad is set.
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

// done reports whether the fields were read to their end without a mistake.
func (f *fields) done() bool { return !f.bad && len(f.b) == 0 }

func appendBytes(b, x []byte) []byte {
	return append(binary.LittleEndian.AppendUint32(b, uint32(len(x))), x...)
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
	m.Write(appendBytes(nil, []byte(label)))
	m.Write(part)
	return m.Sum(nil)
}

// joining is a rank's first message: its claims about itself.
type joining struct {
	rank, size uint32
	epoch      uint64
}

// append appends the fields, with the proof that the rank knows the secret.
func (j joining) append(b, secret []byte) []byte {
	at := len(b)
	b = binary.LittleEndian.AppendUint32(b, version)
	b = binary.LittleEndian.AppendUint32(b, j.rank)
	b = binary.LittleEndian.AppendUint32(b, j.size)
	b = binary.LittleEndian.AppendUint64(b, j.epoch)
	return append(b, derive(secret, labelJoin, b[at:])...)
}

// parseJoining is the inverse of append. With ErrSecret the joining is a claim that
// nothing proves.
func parseJoining(b, secret []byte) (joining, error) {
	f := fields{b: b}
	if v := f.u32(); f.bad || v != version {
		return joining{}, fmt.Errorf("%w: version %d, expected %d: all ranks must be of one build", ErrProtocol, v, version)
	}
	j := joining{rank: f.u32(), size: f.u32(), epoch: f.u64()}
	proof := f.take(proofBytes)
	if !f.done() {
		return joining{}, fmt.Errorf("%w: a join of %d bytes", ErrProtocol, len(b))
	}
	if !hmac.Equal(proof, derive(secret, labelJoin, b[:len(b)-proofBytes])) {
		return j, fmt.Errorf("%w: rank %d of %d", ErrSecret, j.rank, j.size)
	}
	return j, nil
}

// appendWelcome appends the name of the run and the proof that rank 0 knows the secret.
func appendWelcome(b, secret, run []byte) []byte {
	return append(append(b, run...), derive(secret, labelWelcome, run)...)
}

// parseWelcome returns the name of the run.
func parseWelcome(b, secret []byte) (run []byte, err error) {
	f := fields{b: b}
	run, proof := f.take(runBytes), f.take(proofBytes)
	if !f.done() {
		return nil, fmt.Errorf("%w: a welcome of %d bytes", ErrProtocol, len(b))
	}
	if !hmac.Equal(proof, derive(secret, labelWelcome, run)) {
		return nil, fmt.Errorf("%w: rank 0 does not know this rank's", ErrSecret)
	}
	return run, nil
}

// request is a rank's question to the store; which fields count depends on the kind.
type request struct {
	key     string
	value   []byte        // set, gather
	delta   int64         // add
	timeout time.Duration // wait, gather; sent in milliseconds
	rank    uint32        // gather: of size
	size    uint32
}

func (q request) append(b []byte, kind uint32) []byte {
	b = appendBytes(b, []byte(q.key))
	switch kind {
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

// parseRequest is the inverse of append; the result's value lies in b.
func parseRequest(kind uint32, b []byte) (request, error) {
	f := fields{b: b}
	q := request{key: string(f.bytes())}
	switch kind {
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
		return q, fmt.Errorf("%w: message of kind %d, expected a request", ErrProtocol, kind)
	}
	switch most := maxGathered(int(min(max(q.size, 1), MaxSize))); {
	case !f.done():
		return q, fmt.Errorf("%w: request of kind %d with %d bytes that are not one", ErrProtocol, kind, len(b))
	case len(q.key) > MaxKey || len(q.value) > MaxValue:
		return q, fmt.Errorf("%w: a key of %d and a value of %d bytes, expected at most %d and %d",
			ErrTooLarge, len(q.key), len(q.value), MaxKey, MaxValue)
	case kind == kindGather && (q.size == 0 || q.size > MaxSize || q.rank >= q.size || len(q.value) > most):
		return q, fmt.Errorf("%w: %d bytes of rank %d of %d to gather, expected at most %d",
			ErrTooLarge, len(q.value), q.rank, q.size, most)
	}
	return q, nil
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

func (e failure) append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(e.code))
	b = appendBytes(b, []byte(e.text))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(e.ranks)))
	for _, r := range e.ranks {
		b = binary.LittleEndian.AppendUint32(b, uint32(r))
	}
	return b
}

func parseFailure(b []byte) (failure, error) {
	f := fields{b: b}
	e := failure{code: code(f.u32()), text: string(f.bytes())}
	n := int(f.u32())
	if f.bad || n*4 != len(f.b) {
		return e, fmt.Errorf("%w: a failure of %d bytes that is none", ErrProtocol, len(b))
	}
	for range n {
		e.ranks = append(e.ranks, int(f.u32()))
	}
	return e, nil
}

// parseValues reads the reply to a gather among size ranks; the values lie in b.
func parseValues(b []byte, size int) ([][]byte, error) {
	f := fields{b: b}
	out := make([][]byte, 0, size)
	for range size {
		out = append(out, f.bytes())
	}
	if !f.done() {
		return nil, fmt.Errorf("%w: %d bytes that are not the values of %d ranks", ErrProtocol, len(b), size)
	}
	return out, nil
}

// number returns a value that is a number.
func number(n int64) []byte { return binary.LittleEndian.AppendUint64(nil, uint64(n)) }
