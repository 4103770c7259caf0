package wire

import "github.com/ringside-go/ringside/ipc/encoding"

// Saved answers a Save: the parts that one worker wrote, in this order and without gaps.
//
//	session uint64, seq uint64, end uint64, rank uvarint, code uint32, text,
//	pieces uvarint,
//	then of each: index uvarint (as the difference to the piece before), rank uint8,
//	start and dims uvarint each, sum
type Saved struct {
	Session uint64
	Seq     uint64 // of the Save
	End     uint64 // offset in the file behind the last part
	Rank    uint32 // of the worker
	Code    Code
	Text    string // the error, at most MaxText bytes; empty when Code is CodeOK
	Pieces  []Piece
}

// Piece is the part of a value that a worker wrote. Where several workers have the same
// part, one of them writes it.
type Piece struct {
	Index uint32    // of the value in Save.IDs
	Start []int     // where the part begins in the value, by dim
	Dims  []int     // of the part
	Sum   [Sum]byte // SHA-256 of its bytes
}

// Sum is the number of bytes of a checksum.
const Sum = 32

func (m *Saved) walk(w *encoding.Walk) {
	w.U64("Session", &m.Session)
	w.U64("Seq", &m.Seq)
	w.U64("End", &m.End)
	w.Number("Rank", &m.Rank, MaxWorkers-1)
	w.U32("Code", (*uint32)(&m.Code))
	w.Text("Text", &m.Text, MaxText)
	encoding.List(w, "Pieces", &m.Pieces, MaxSaves, 2+Sum)
	last := uint32(0)
	for i := range m.Pieces {
		x := &m.Pieces[i]
		step := x.Index - last
		w.Number("Pieces.Index", &step, MaxSaves-1)
		if w.Parses() {
			if i > 0 && step == 0 || last+step >= MaxSaves {
				w.Fail("Pieces.Index", "%d after %d, want a larger one below %d", last+step, last, MaxSaves)
			}
			x.Index = last + step
		}
		last = x.Index
		if rank := walkRank(w, "Pieces.Dims", len(x.Dims)); w.Parses() {
			x.Start, x.Dims = encoding.Resize(x.Start, rank), encoding.Resize(x.Dims, rank)
		}
		walkDims(w, "Pieces.Start", x.Start)
		walkDims(w, "Pieces.Dims", x.Dims)
		w.Fixed("Pieces.Sum", x.Sum[:])
	}
}
