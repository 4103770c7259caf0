package codec

import (
	"bufio"
	"bytes"
	"crypto/ed25519"
	"encoding/binary"
	"fmt"
	"io"

	"lukechampine.com/blake3"
)

// Payload is a finished container.
type Payload struct {
	Header Header
	Digest Digest

	head, tail []byte
	sections   []byte
}

// Size returns the bytes of the container.
func (p *Payload) Size() int64 { return int64(len(p.head) + len(p.sections) + len(p.tail)) }

// Sections returns the part between header and leaves.
func (p *Payload) Sections() []byte { return p.sections }

// WriteTo writes the container.
func (p *Payload) WriteTo(w io.Writer) (int64, error) {
	var n int64
	for _, b := range [][]byte{p.head, p.sections, p.tail} {
		k, err := w.Write(b)
		if n += int64(k); err != nil {
			return n, err
		}
	}
	return n, nil
}

// Bytes returns a copy of the container.
func (p *Payload) Bytes() []byte { return bytes.Join([][]byte{p.head, p.sections, p.tail}, nil) }

// Seal makes a container of a header and its sections, and signs it if there is a key. It
// checks nothing: tests use it to make containers that Validate refuses.
func Seal(h Header, sections []byte, key ed25519.PrivateKey) (*Payload, error) {
	body, err := Marshal(&h)
	if err != nil {
		return nil, fmt.Errorf("codec: encoding the header: %w", err)
	}
	if len(body) > MaxHeader {
		return nil, fmt.Errorf("codec: header of %d bytes, expected at most %d; use larger chunks", len(body), MaxHeader)
	}
	p := &Payload{Header: h, sections: sections}
	var flags uint16
	if key != nil {
		flags |= flagSigned
	}
	p.head = append(p.head, magic...)
	p.head = binary.LittleEndian.AppendUint16(p.head, Version)
	p.head = binary.LittleEndian.AppendUint16(p.head, flags)
	p.head = binary.LittleEndian.AppendUint32(p.head, uint32(len(body)))
	p.head = append(p.head, body...)
	p.head = append(p.head, make([]byte, int(alignUp(uint64(len(p.head))))-len(p.head))...)

	var t tree
	t.write(p.head)
	t.write(sections)
	leaves, root := t.finish()
	p.Digest = root
	p.tail = append(leaves, root[:]...)
	if key != nil {
		p.tail = append(p.tail, ed25519.Sign(key, signed(root))...)
	}
	return p, nil
}

// signed is the message that a signature is of.
func signed(root Digest) []byte { return append([]byte("GRD1 signature"), root[:]...) }

// hasher is a BLAKE3 hasher that collects its input: the hash is several times faster in
// pieces of many chunks.
type hasher struct {
	h *blake3.Hasher
	*bufio.Writer
}

func newHasher() *hasher {
	h := blake3.New(len(Digest{}), nil)
	return &hasher{h, bufio.NewWriterSize(h, 32<<10)}
}

// sum appends the digest of what was written to b, and begins another.
func (h *hasher) sum(b []byte) []byte {
	h.Flush() // a hash returns no error
	b = h.h.Sum(b)
	h.h.Reset()
	return b
}

// tree computes the digest of a body: leaves of leafSize, and the root over them.
type tree struct {
	h      *hasher
	n      int // bytes in the leaf under way
	leaves []byte
}

func (t *tree) write(b []byte) {
	if t.h == nil {
		t.h = newHasher()
	}
	for len(b) > 0 {
		k := min(len(b), leafSize-t.n)
		t.h.Write(b[:k])
		b = b[k:]
		if t.n += k; t.n == leafSize {
			t.close()
		}
	}
}

func (t *tree) close() {
	t.leaves = t.h.sum(t.leaves)
	t.n = 0
}

func (t *tree) finish() (leaves []byte, root Digest) {
	if t.n > 0 {
		t.close()
	}
	return t.leaves, blake3.Sum256(append([]byte("GRD1 root"), t.leaves...))
}
