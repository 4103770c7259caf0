package apply

import (
	"math"
	"slices"

	"github.com/ringside-go/ringside/gather/codec"
)

// votes collects all values of a tile and decides position by position. A vote is a key
// that is ordered by position and then by value.
type votes struct {
	vote  func([]float32) float32
	peers int

	keys   []uint64
	width  int
	row    codec.Row
	values []float32
}

func (a *votes) bytes(p *codec.Param) int64 { return int64(a.peers) * int64(p.K) * 8 }

func (a *votes) begin(p *codec.Param, _ scale, n int) {
	a.width = p.TotalK
	a.keys = resize(a.keys, a.peers*n*p.K)[:0]
}

func (a *votes) add(rows []codec.Rows, factors []float64) error {
	for u := range rows {
		err := rows[u].Each(&a.row, func(i int) {
			for j, at := range a.row.Index {
				v := float32(factors[u] * float64(rows[u].Value(&a.row, j)))
				a.keys = append(a.keys, uint64(i*a.width+int(at))<<32|uint64(ordered(v)))
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// ordered maps a float32 to an integer that is ordered as it is, and unordered back.
func ordered(v float32) uint32 {
	b := math.Float32bits(v)
	if b>>31 != 0 {
		return ^b
	}
	return b | 1<<31
}

func unordered(b uint32) float32 {
	if b>>31 != 0 {
		return math.Float32frombits(b &^ (1 << 31))
	}
	return math.Float32frombits(^b)
}

func (a *votes) end(out []float32) {
	clear(out)
	slices.Sort(a.keys)
	for from := 0; from < len(a.keys); {
		at := a.keys[from] >> 32
		a.values = a.values[:0]
		for ; from < len(a.keys) && a.keys[from]>>32 == at; from++ {
			a.values = append(a.values, unordered(uint32(a.keys[from])))
		}
		out[at] = a.vote(a.values)
	}
}
