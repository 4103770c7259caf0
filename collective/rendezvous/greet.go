package rendezvous

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"time"
)

// greetTimeout bounds a handshake, whose partner answers at once.
const greetTimeout = 10 * time.Second

// link is a connection whose handshake is done.
type link struct {
	net.Conn
	in, out *seal // what we read and what we write
}

func derive(secret []byte, label string, parts ...[]byte) []byte {
	m := hmac.New(sha256.New, secret)
	m.Write(appendBytes(nil, []byte(label)))
	for _, p := range parts {
		m.Write(p)
	}
	return m.Sum(nil)
}

// Labels of what is derived from the secret.
const (
	labelProof = "ringside rendezvous: store"
	labelUp    = "ringside rendezvous: rank to store"
	labelDown  = "ringside rendezvous: store to rank"
	labelKey   = "ringside rendezvous: key of the run"
)

func nonce() []byte {
	b := make([]byte, nonceBytes)
	rand.Read(b) // never fails
	return b
}

// refusedError is what rank 0 said to a rank that it doesn't let in.
type refusedError struct{ failure }

func (e *refusedError) Error() string { return fmt.Sprintf("%v: %s", e.code.sentinel(), e.text) }
func (e *refusedError) Unwrap() error { return e.code.sentinel() }

// greet is the rank's side of the handshake. It gives the key of the run.
func greet(c net.Conn, w World) (*link, []byte, error) {
	c.SetDeadline(time.Now().Add(greetTimeout))
	mine := nonce()
	hello := append([]byte(magic), version)
	if err := writeFrame(c, frame{kind: kindHello, body: append(hello, mine...)}, nil); err != nil {
		return nil, nil, err
	}
	f, err := readFrame(c, maxGreeting, nil)
	if err != nil {
		return nil, nil, err
	}
	if f.kind == kindRefuse {
		return nil, nil, refusal(f.body)
	}
	x := fields{b: f.body}
	name, v := x.take(len(magic)), x.take(1)
	theirs, run, proof := x.take(nonceBytes), x.take(nonceBytes), x.take(proofBytes)
	if f.kind != kindChallenge || !x.done() || string(name) != magic || v[0] != version {
		return nil, nil, fmt.Errorf("%w: %.40q instead of a challenge", ErrProtocol, f.body)
	}
	l := &link{
		Conn: c,
		in:   &seal{key: derive(w.Secret, labelDown, mine, theirs, run)},
		out:  &seal{key: derive(w.Secret, labelUp, mine, theirs, run)},
	}
	join := binary.LittleEndian.AppendUint32(nil, uint32(w.Rank))
	join = binary.LittleEndian.AppendUint32(join, uint32(w.Size))
	join = binary.LittleEndian.AppendUint64(join, w.Epoch)
	same := hmac.Equal(proof, derive(w.Secret, labelProof, mine, theirs, run))
	if err := writeFrame(c, frame{kind: kindJoin, body: join}, l.out); err != nil {
		return nil, nil, err
	}
	if !same { // rank 0 finds out by the join's MAC, and can say so where it waits for us
		return nil, nil, fmt.Errorf("%w: rank 0 knows another than rank %d", ErrSecret, w.Rank)
	}
	if f, err = readFrame(c, maxGreeting, l.in); err != nil {
		return nil, nil, err
	}
	switch f.kind {
	case kindWelcome:
		c.SetDeadline(time.Time{})
		return l, derive(w.Secret, labelKey, run), nil
	case kindRefuse:
		return nil, nil, refusal(f.body)
	}
	return nil, nil, fmt.Errorf("%w: a frame of kind %d instead of a welcome", ErrProtocol, f.kind)
}

func refusal(body []byte) error {
	e, err := parseFailure(body)
	if err != nil {
		return err
	}
	return &refusedError{e}
}

// joining is what a rank said of itself.
type joining struct {
	rank, size uint32
	epoch      uint64
}

// receive is rank 0's side of the handshake up to the rank's join, which proved that it knows the secret. The caller
// answers it. With ErrSecret the joining is what was claimed.
func receive(c net.Conn, secret, run []byte) (*link, joining, error) {
	c.SetDeadline(time.Now().Add(greetTimeout))
	f, err := readFrame(c, maxGreeting, nil)
	if err != nil {
		return nil, joining{}, err
	}
	x := fields{b: f.body}
	name, v, theirs := x.take(len(magic)), x.take(1), x.take(nonceBytes)
	if f.kind != kindHello || string(name) != magic || len(v) == 0 {
		return nil, joining{}, fmt.Errorf("%w: %.40q instead of a hello", ErrProtocol, f.body)
	}
	if v[0] != version || !x.done() {
		say := failure{code: codeVersion, text: fmt.Sprintf("version %d, expected %d: all ranks must be of one build", v[0], version)}
		_ = writeFrame(c, frame{kind: kindRefuse, body: say.append(nil)}, nil)
		return nil, joining{}, fmt.Errorf("%w: %s", ErrProtocol, say.text)
	}
	mine := nonce()
	challenge := append([]byte(magic), version)
	challenge = append(append(challenge, mine...), run...)
	challenge = append(challenge, derive(secret, labelProof, theirs, mine, run)...)
	if err := writeFrame(c, frame{kind: kindChallenge, body: challenge}, nil); err != nil {
		return nil, joining{}, err
	}
	l := &link{
		Conn: c,
		in:   &seal{key: derive(secret, labelUp, theirs, mine, run)},
		out:  &seal{key: derive(secret, labelDown, theirs, mine, run)},
	}
	f, err = readFrame(c, maxGreeting, l.in)
	x = fields{b: f.body}
	j := joining{rank: x.u32(), size: x.u32(), epoch: x.u64()}
	switch {
	case errors.Is(err, ErrProtocol) && f.kind == kindJoin && x.done():
		return nil, j, fmt.Errorf("%w: rank %d, it says, of %d", ErrSecret, j.rank, j.size)
	case err != nil:
		return nil, joining{}, err
	case f.kind != kindJoin || !x.done():
		return nil, joining{}, fmt.Errorf("%w: a frame of kind %d instead of a join", ErrProtocol, f.kind)
	}
	return l, j, nil
}
