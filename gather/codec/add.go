package codec

import (
	"encoding/binary"
	"math/bits"

	"github.com/ringside-go/ringside/gather/outcome"
)

// Levels is what the codes of one peer stand for, in fixed point.
type Levels [MaxBins]int64

// Add adds the next row to sums and counts of TotalK places. The row must be one of a
// codebook. It uses row's memory and is, in one loop for formats that allow it,
//
//	rows.Next(row)
//	for j, at := range row.Index {
//		sums[at] += levels[row.Codes[j]]
//		counts[at]++
//	}
func (rows *Rows) Add(sums []int64, counts []uint16, levels *Levels, row *Row) error {
	p := rows.Param
	if p.Index == Pack12 && p.Value == U8LUT && p.TotalK == 1<<12 && bits.OnesCount(uint(p.Bins)) == 1 {
		return rows.addPacked((*[1 << 12]int64)(sums), (*[1 << 12]uint16)(counts), levels)
	}
	if err := rows.Next(row); err != nil {
		return err
	}
	sums, counts = sums[:p.TotalK], counts[:p.TotalK]
	codes := row.Codes[:len(row.Index)]
	for j, at := range row.Index {
		sums[at] += levels[codes[j]]
		counts[at]++
	}
	return nil
}

// addPacked adds a row of Pack12 and U8LUT, whose indices of 12 bits and codes of 8 are
// places of the arrays whatever they are. It reports codes that are not below the
// codebook's size, which is a power of two.
func (rows *Rows) addPacked(sums *[1 << 12]int64, counts *[1 << 12]uint16, levels *Levels) error {
	const mask = 1<<12 - 1
	p, i := rows.Param, rows.done
	n := p.K / 2 * 3
	if len(rows.index)-rows.at < n {
		return rows.changed(outcome.Truncated, i)
	}
	index, codes := rows.index[rows.at:rows.at+n], rows.values[i*p.K:(i+1)*p.K]
	rows.at, rows.done = rows.at+n, i+1
	var seen uint64 // the bits that occur in codes
	for ; len(index) >= 8 && len(codes) >= 4; index, codes = index[6:], codes[4:] {
		x, c := binary.LittleEndian.Uint64(index), uint64(binary.LittleEndian.Uint32(codes))
		seen |= c
		i0, i1, i2, i3 := x&mask, x>>12&mask, x>>24&mask, x>>36&mask
		sums[i0] += levels[c&0xff]
		counts[i0]++
		sums[i1] += levels[c>>8&0xff]
		counts[i1]++
		sums[i2] += levels[c>>16&0xff]
		counts[i2]++
		sums[i3] += levels[c>>24]
		counts[i3]++
	}
	for ; len(index) >= 3 && len(codes) >= 2; index, codes = index[3:], codes[2:] {
		x := uint(index[0]) | uint(index[1])<<8 | uint(index[2])<<16
		seen |= uint64(codes[0]) | uint64(codes[1])
		sums[x&mask] += levels[codes[0]]
		counts[x&mask]++
		sums[x>>12&mask] += levels[codes[1]]
		counts[x>>12&mask]++
	}
	if seen&^(0x0101010101010101*uint64(p.Bins-1)) != 0 {
		return rows.changed(outcome.CodeRange, i)
	}
	return nil
}
