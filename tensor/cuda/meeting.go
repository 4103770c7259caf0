package cuda

import (
	"encoding/binary"
	"fmt"

	"github.com/ringside-go/ringside/collective/protocol"
	"github.com/ringside-go/ringside/shm"
	"github.com/ringside-go/ringside/tensor/cuda/memory"
	"github.com/ringside-go/ringside/tensor/device"
)

// tell meets the others, and finds where their values are. It reports whether no member
// failed so far; err is this one's failure.
func (b *batch) tell(failed bool, meet device.Meet, err *error) (ok bool, broken error) {
	said := []byte{fine}
	for _, c := range b.parts {
		var e error
		if said, e = c.said(said, failed || *err != nil); e != nil {
			*err = e
		}
	}
	if failed || *err != nil {
		said[0] = lost
	}
	all, broken := meet(said)
	if broken != nil {
		return false, broken
	}
	if len(all) != len(b.others) {
		return false, fmt.Errorf("cuda: %d members answered, expected %d", len(all), len(b.others))
	}
	ok = true
	for _, m := range all {
		ok = ok && len(m) == len(said) && m[0] == fine
	}
	if !ok {
		return false, nil
	}
	for r, m := range all {
		rest := m[1:]
		for _, c := range b.parts {
			var e error
			if rest, e = c.hear(r, rest); e != nil && *err == nil {
				*err = fmt.Errorf("cuda: %v with rank %d: %w", c.x.Kind, r, e)
			}
			if e != nil {
				break
			}
		}
	}
	return true, nil
}

// The first byte of a message.
const (
	fine = 1
	lost = 2
)

// said appends what this member tells the others, which has the same size on all. none
// says that there is nothing to tell.
//
//	place of the value | place of the result | parts of an all-to-all
//
// The members of a transfer tell the place of the value alone: the sender writes to its
// own memory only.
//
// A place is a handle, and the export of its segment, or zeros where they have it.
func (c *collecting) said(b []byte, none bool) ([]byte, error) {
	var err error
	places := []*shm.Block{c.src, c.dst}
	if c.x.Kind.Paired() {
		places = places[:1]
	}
	for _, block := range places {
		var h shm.Handle
		export := make([]byte, memory.ExportSize)
		if err == nil && !none && block != nil {
			h = block.Handle()
			var e memory.Export
			if e, err = c.export(h.Segment); err == nil && !c.told[h.Segment] {
				export, c.news = e.Append(nil), append(c.news, h.Segment)
			}
		}
		b = append(h.Append(b), export...)
	}
	if c.x.Kind == protocol.AllToAll {
		off := 0
		for _, k := range c.x.Send {
			b = binary.LittleEndian.AppendUint64(b, uint64(off))
			off += k * c.size
		}
	}
	return b, err
}

// heard notes that all others have opened the segments that they were told of. Where one
// of the members failed they may not have: they are told again, then.
func (b *batch) heard() {
	for _, id := range b.news {
		b.told[id] = true
	}
}

// hear reads what member r said, data of another process, and returns what follows.
func (c *collecting) hear(r int, b []byte) ([]byte, error) {
	want := c.in
	switch c.x.Kind {
	case protocol.AllGather:
		want = c.x.Recv[r] * c.size
	case protocol.AllToAll:
		want = 0 // its parts are checked
	case protocol.Send:
		want = 0
	case protocol.Recv:
		if want = c.out; r == c.rank {
			want = 0
		}
	}
	value, b, err := c.hearPlace(r, b, c.src, want)
	if err != nil {
		return nil, err
	}
	c.values = append(c.values, value)
	if c.x.Kind.Paired() {
		return b, nil
	}
	want = 0
	if c.twice {
		want = c.out
	}
	result, b, err := c.hearPlace(r, b, c.dst, want)
	if err != nil {
		return nil, err
	}
	c.folded = append(c.folded, result)
	if c.x.Kind == protocol.AllToAll {
		at := b
		b = b[8*len(c.others):]
		mine, n := binary.LittleEndian.Uint64(at[8*c.rank:]), uint64(c.x.Recv[r]*c.size)
		if mine > uint64(value.n) || n > uint64(value.n)-mine {
			return nil, fmt.Errorf("%w: a part of %d bytes at %d of a value of %d", shm.ErrBounds, n, mine, value.n)
		}
		c.begins = append(c.begins, mine)
	}
	return b, nil
}

// hearPlace reads a place of member r, which has to have n bytes at least, and returns
// the rest of b. mine is the block if r is this member.
func (c *collecting) hearPlace(r int, b []byte, mine *shm.Block, n int) (place, []byte, error) {
	h, export, rest := shm.GetHandle(b), b[shm.HandleSize:][:memory.ExportSize], b[shm.HandleSize+memory.ExportSize:]
	if h == (shm.Handle{}) {
		if n > 0 {
			return place{}, nil, fmt.Errorf("%w: no memory, expected %d bytes", shm.ErrBounds, n)
		}
		return place{}, rest, nil
	}
	if h.Len < uint64(n) || h.Off%alignment != 0 {
		return place{}, nil, fmt.Errorf("%w: %v, expected %d bytes from a multiple of %d on", shm.ErrBounds, h, n, alignment)
	}
	if r == c.rank {
		return place{c.s.at(mine), int(h.Len)}, rest, nil
	}
	if [memory.ExportSize]byte(export) != [memory.ExportSize]byte{} {
		e, err := memory.ParseExport(export)
		if err == nil {
			err = c.imports.Add(uint64(r), e, nil)
		}
		if err != nil {
			return place{}, nil, err
		}
	}
	at, err := c.imports.Resolve(uint64(r), h)
	return place{at, int(h.Len)}, rest, err
}

// agree meets the others, and reports whether no member failed.
func (b *batch) agree(meet device.Meet, err error) (ok bool, broken error) {
	m := []byte{fine}
	if err != nil {
		m[0] = lost
	}
	all, broken := meet(m)
	if broken != nil {
		return false, broken
	}
	ok = len(all) == len(b.others)
	for _, m := range all {
		ok = ok && len(m) == 1 && m[0] == fine
	}
	return ok, nil
}
