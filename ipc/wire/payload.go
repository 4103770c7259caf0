package wire

import (
	"encoding/binary"
	"math/bits"
)

// Payload is how many bytes of tensors a message carries itself, instead of by handle: what
// a forwarder counts to show that tensors go around it. It walks over the fields and
// keeps nothing. A message that does not parse counts as far as it did.
func Payload(kind uint32, body []byte) int {
	p := parser{msg: KindName(kind), src: body}
	switch kind {
	case KindRun:
		return p.runPayload()
	case KindDone:
		return p.donePayload()
	}
	return 0
}

func (p *parser) runPayload() int {
	p.take("Fixed", runFixed)
	scalars := p.count("Scalars", MaxScalars, 0)
	var ids [3]int
	for i := range ids {
		ids[i] = p.count("IDs", MaxIDs, 0)
	}
	uploads := p.count("Uploads", MaxUploads, minUpload)
	if uploads == 0 || p.err != nil {
		return 0
	}
	p.uvarint("Returns")
	p.uvarint("Forget")
	changed := 0
	for _, b := range p.take("Scalars", (scalars+7)/8) {
		changed += bits.OnesCount8(b)
	}
	p.take("Scalars", 8*changed)
	for _, n := range ids {
		p.skipIDs(n)
	}
	return p.values(uploads, func() { p.uvarint("Stage"); p.take("Layout, Own", 2) })
}

func (p *parser) donePayload() int {
	p.take("Fixed", 20)
	for range new(Done).counts() {
		p.uvarint("Counts")
	}
	p.bytes("Text", MaxText)
	if p.uvarint("At") != 0 {
		p.bytes("Op", MaxName)
		p.bytes("Inputs", MaxText)
	}
	results := p.count("Results", MaxResults, 2+minValue)
	p.uvarint("Returned")
	return p.values(results, func() { p.uvarint("Layout") })
}

// skipIDs walks over the tokens of n ids, see AppendIDs.
func (p *parser) skipIDs(n int) {
	for n > 0 && p.err == nil {
		token := p.uvarint("IDs")
		count := token >> 2
		if count == 0 || count > uint64(n) {
			p.fail("IDs", "token for %d ids of %d", count, n)
			return
		}
		n -= int(count)
		for ; token&3 == modeExplicit && count > 0 && p.err == nil; count-- {
			p.uvarint("IDs")
		}
	}
}

// values walks over n values, each behind an id and what skip walks over, and returns the bytes that are inline.
func (p *parser) values(n int, skip func()) int {
	total := 0
	for ; n > 0 && p.err == nil; n-- {
		p.uvarint("ID")
		skip()
		head := p.take("Value", 3)
		if head == nil {
			break
		}
		for range head[2] {
			p.uvarint("Dims")
		}
		switch head[1] {
		case formHandle:
			p.take("Handle", HandleBytes)
			continue
		case formNone:
			continue
		}
		// The length as it is said, although the parser at the end allows no more than MaxInline.
		if v, k := binary.Uvarint(p.src[p.off:]); k > 0 && p.err == nil {
			p.off += k
			total += len(p.take("Inline", int(min(v, MaxProgram))))
		} else {
			p.fail("Inline", "not a varint")
		}
	}
	return total
}
