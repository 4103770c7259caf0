package wire

import (
	"math/bits"

	"github.com/ringside-go/ringside/ipc/encoding"
)

// Payload returns the number of bytes of tensors that a message carries itself, instead
// of by handle. The dispatcher counts them to show that tensors do not pass through it.
// Payload steps over the fields and keeps nothing. It counts a message that does not
// parse up to the error.
func Payload(kind uint32, body []byte) int {
	p := payload{w: encoding.Parsing("payload", body)}
	switch kind {
	case KindRun:
		p.run()
	case KindDone:
		p.done()
	}
	return p.bytes
}

// payload steps over the fields of a message and counts the bytes of inline values.
type payload struct {
	w     encoding.Walk
	bytes int
}

// uvarints steps over n varints and returns the last.
func (p *payload) uvarints(field string, n int) (v uint64) {
	for ; n > 0 && p.w.Err() == nil; n-- {
		p.w.Uvarint(field, &v)
	}
	return v
}

func (p *payload) run() {
	p.w.Take("Fixed", runFixed)
	scalars := p.w.Count("Scalars", 0, MaxScalars, 0)
	var ids [3]int
	for i := range ids {
		ids[i] = p.w.Count("IDs", 0, MaxIDs, 0)
	}
	uploads := p.w.Count("Uploads", 0, MaxUploads, minUpload)
	if uploads == 0 {
		return
	}
	p.uvarints("Returns, Forget", 2)
	changed := 0
	for _, b := range p.w.Take("Scalars", (scalars+7)/8) {
		changed += bits.OnesCount8(b)
	}
	p.w.Take("Scalars", 8*changed)
	for _, n := range ids {
		p.ids(n)
	}
	for ; uploads > 0; uploads-- {
		p.uvarints("ID, Stage", 2)
		p.w.Take("Layout, Own", 2)
		p.value()
	}
}

func (p *payload) done() {
	p.w.Take("Fixed", 8+8+4)
	p.uvarints("Rank to Hidden", 6)
	var text []byte
	p.w.Bytes("Text", &text, MaxText)
	if p.uvarints("At", 1) != 0 {
		p.w.Bytes("Op", &text, MaxName)
		p.w.Bytes("Inputs", &text, MaxText)
	}
	results := p.w.Count("Results", 0, MaxResults, 2+minValue)
	p.uvarints("Returned", 1)
	for ; results > 0; results-- {
		p.uvarints("ID, Layout", 2)
		p.value()
	}
}

// ids steps over the tokens of n ids, see walkIDs.
func (p *payload) ids(n int) {
	for n > 0 && p.w.Err() == nil {
		token := p.uvarints("IDs", 1)
		count := token >> 2
		if count == 0 || count > uint64(n) {
			p.w.Fail("IDs", "token for %d ids of %d", count, n)
			return
		}
		n -= int(count)
		if token&3 == modeExplicit {
			p.uvarints("IDs", int(count))
		}
	}
}

// value steps over a value and counts its bytes, if they are inline.
func (p *payload) value() {
	head := p.w.Take("Value", minValue)
	if head == nil {
		return
	}
	p.uvarints("Dims", int(head[2]))
	switch head[1] {
	case formHandle:
		p.w.Take("Handle", HandleBytes)
	case formInline:
		var inline []byte
		p.w.Bytes("Inline", &inline, MaxProgram) // the worker refuses more than MaxInline
		p.bytes += len(inline)
	}
}
