package codec

import (
	"encoding/binary"
	"fmt"
	"io"

	"github.com/ringside-go/ringside/gather/outcome"
)

// Rows is a range of rows of one parameter of one peer, encoded. Its bytes are as they
// lie in the container, so that they can be sent to another rank as they are.
type Rows struct {
	Param *Param
	Table []float32 // what codes stand for; empty without a codebook
	From  int       // first row
	N     int       // number of rows

	skip   int // rows of index before From: a block begins in front of it
	index  []byte
	values []byte

	at   int // bytes of index that are decoded
	done int // rows that are decoded

	of   *Report // that they were read by; nil for those of another rank
	base place   // of index
}

// place is where a row of a parameter begins in its section of indices.
type place struct{ param, row, off int }

// ReadRows reads rows [from, from+n) of parameter p of a container that Validate found
// right. It reuses the memory of rows. Rows are decoded from the start of their block on,
// or from where those end that were decoded last. A report's rows are for one goroutine;
// those of a codebook are right until rows of another parameter are read.
func (r *Report) ReadRows(rows *Rows, m *Manifest, in io.ReaderAt, p, from, n int) error {
	q, h := &m.Params[p], &r.Header.Params[p]
	rows.Param, rows.From, rows.N, rows.skip, rows.at, rows.done = q, from, n, 0, 0, 0
	if r.tableOf != p || len(r.table) == 0 {
		r.table, r.tableOf = h.appendTable(r.table[:0]), p
	}
	rows.Table = r.table
	stride := q.Index.stride(q.TotalK, q.K)
	lo, hi := from*stride, (from+n)*stride
	if q.Index == Rice {
		rows.skip = from % blockRows
		lo, hi = int(h.Blocks[from/blockRows]), int(h.IndexLen)
		if last := r.last; last.param == p && last.row <= from && from-last.row < rows.skip {
			rows.skip, lo = from-last.row, last.off
		}
		if end := (from + n + blockRows - 1) / blockRows; end < len(h.Blocks) {
			hi = int(h.Blocks[end])
		}
		// at least lo: a spool may have changed
		hi = max(min(hi, lo+(rows.skip+n)*q.MaxIndexRow()), lo)
	}
	rows.of, rows.base = r, place{p, from - rows.skip, lo}
	var err error
	if rows.index, err = readAt(in, rows.index, r.Base+int64(h.IndexOff)+int64(lo), hi-lo); err != nil {
		return err
	}
	stride = q.ValueRow()
	rows.values, err = readAt(in, rows.values, r.Base+int64(h.ValueOff)+int64(from*stride), n*stride)
	return err
}

func readAt(in io.ReaderAt, b []byte, off int64, n int) ([]byte, error) {
	if cap(b) < n {
		b = make([]byte, n)
	}
	b = b[:n]
	if k, err := in.ReadAt(b, off); k < n {
		return b, fmt.Errorf("reading %d bytes at %d of a payload: %w", n, off, err)
	}
	return b, nil
}

// MaxRowsLen returns the most bytes that Append makes of n rows.
func (p *Param) MaxRowsLen(n int) int {
	if p.Index == Rice { // whole blocks at either end
		return rowsHead + 4*p.Bins + (n+2*blockRows)*p.MaxIndexRow() + n*p.ValueRow()
	}
	return rowsHead + 4*p.Bins + n*(p.MaxIndexRow()+p.ValueRow())
}

const rowsHead = 12

// Append appends rows, of which none was decoded, to a message for another rank:
//
//	bytes of indices u32 | bytes of values u32 | skip u16 | levels u16
//	levels, f32 each | indices | values
func (rows *Rows) Append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(len(rows.index)))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(rows.values)))
	b = binary.LittleEndian.AppendUint16(b, uint16(rows.skip))
	b = binary.LittleEndian.AppendUint16(b, uint16(len(rows.Table)))
	for _, v := range rows.Table {
		b, _ = binary.Append(b, binary.LittleEndian, v)
	}
	return append(append(b, rows.index...), rows.values...)
}

// Parse takes rows [from, from+n) of p from the start of b, as Append wrote them, and
// returns what follows. rows refers to b.
func (rows *Rows) Parse(b []byte, p *Param, from, n int) ([]byte, error) {
	bad := outcome.Errorf(outcome.BadShape, "%s: message of %d bytes for rows %d to %d is malformed", p.Name, len(b), from, from+n)
	if len(b) < rowsHead {
		return nil, bad
	}
	index, values := int(binary.LittleEndian.Uint32(b)), int(binary.LittleEndian.Uint32(b[4:]))
	skip, levels := int(binary.LittleEndian.Uint16(b[8:])), int(binary.LittleEndian.Uint16(b[10:]))
	b = b[rowsHead:]
	if levels != p.Bins || values != n*p.ValueRow() || skip >= blockRows || len(b) < 4*levels+index+values {
		return nil, bad
	}
	if rows.of != nil { // the table is the report's
		rows.Table = nil
	}
	table := resize(rows.Table, levels)
	if _, err := binary.Decode(b, binary.LittleEndian, table); err != nil {
		return nil, err
	}
	b = b[4*levels:]
	*rows = Rows{Param: p, Table: table, From: from, N: n, skip: skip, index: b[:index], values: b[index : index+values]}
	return b[index+values:], nil
}

// Row is one decoded row.
type Row struct {
	Index  []uint32  // below TotalK; ascending, unless the spool was changed
	Codes  []uint8   // below len(Table), where there is a codebook
	Values []float32 // where there is none
}

// Each decodes the rows one after the other and gives each to f, with its number counted
// from From. The row is valid during the call.
func (rows *Rows) Each(row *Row, f func(i int)) error {
	for i := range rows.N {
		if err := rows.Next(row); err != nil {
			return err
		}
		f(i)
	}
	return nil
}

// Next decodes the next row into row; there are N. It checks again what memory safety
// needs: a spool is a file.
func (rows *Rows) Next(row *Row) error {
	p, i := rows.Param, rows.done
	row.Index = resize(row.Index, p.K)
	s := rows.indices(row.Index)
	if s == outcome.OK {
		stride := p.ValueRow()
		s = rows.decodeValues(row, rows.values[i*stride:(i+1)*stride])
	}
	rows.done++
	return rows.changed(s, i)
}

// Value returns value j of a row that Next decoded.
func (rows *Rows) Value(row *Row, j int) float32 {
	if len(rows.Table) > 0 {
		return rows.Table[row.Codes[j]]
	}
	return row.Values[j]
}

// changed is the error of row i with an outcome that is not OK.
func (rows *Rows) changed(s outcome.Outcome, i int) error {
	if s == outcome.OK {
		return nil
	}
	return outcome.Errorf(s, "%s: row %d of a payload that was right has changed", rows.Param.Name, rows.From+i)
}

// indices decodes the indices of the next row, behind those that it skips.
func (rows *Rows) indices(idx []uint32) outcome.Outcome {
	for ; rows.skip >= 0; rows.skip-- {
		n, s := decodeIndices(idx, rows.Param, rows.index[rows.at:])
		if s == outcome.OK {
			s = inRange(idx, rows.Param)
		}
		if s != outcome.OK {
			return s
		}
		rows.at += n
	}
	rows.skip = 0
	if rows.of != nil && rows.done == rows.N-1 {
		rows.of.last = place{rows.base.param, rows.From + rows.N, rows.base.off + rows.at}
	}
	return outcome.OK
}

func (rows *Rows) decodeValues(row *Row, b []byte) outcome.Outcome {
	p := rows.Param
	if !p.Value.lut() {
		row.Values = resize(row.Values, p.K)
		return decodeFloats(row.Values, p.Value, b)
	}
	row.Codes = resize(row.Codes, p.K)
	s := decodeCodes(row.Codes, p.Value, b)
	if len(rows.Table) == p.Value.maxBins() {
		return s
	}
	var most uint8
	for _, c := range row.Codes {
		most = max(most, c)
	}
	if int(most) >= len(rows.Table) {
		return outcome.CodeRange
	}
	return s
}

func resize[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}
