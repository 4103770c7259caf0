package apply

import (
	"math"

	"github.com/ringside-go/ringside/gather/codec"
)

// fixed adds in fixed point.
type fixed struct {
	sum bool // the sum is the update; otherwise the mean over those that sent a position

	s     []int64
	n     []uint16
	width int // coefficients of a row
	scale scale

	factor float64
	lut    [256]int64
	coded  bool
}

func (a *fixed) bytes(p *codec.Param) int64 { return int64(p.TotalK) * (8 + 2) }

func (a *fixed) begin(p *codec.Param, s scale, n int) {
	a.width, a.scale = p.TotalK, s
	a.s, a.n = resize(a.s, n*p.TotalK), resize(a.n, n*p.TotalK)
	clear(a.s)
	clear(a.n)
}

// quantum returns v in fixed point. It limits a level of the codebook that is too
// large to occur in the payload, so that sums stay within 64 bits.
func (a *fixed) quantum(v float32) int64 {
	x := math.RoundToEven(a.factor * float64(v) * a.scale.unit)
	return int64(min(max(x, -a.scale.limit), a.scale.limit))
}

func (a *fixed) peer(rows *codec.Rows, f float64) {
	a.factor = f
	a.coded = len(rows.Table) > 0
	for b, v := range rows.Table {
		a.lut[b] = a.quantum(v)
	}
}

func (a *fixed) add(i int, row *codec.Row) {
	s, n := a.s[i*a.width:(i+1)*a.width], a.n[i*a.width:(i+1)*a.width]
	n = n[:len(s)]
	if !a.coded {
		for j, at := range row.Index {
			s[at] += a.quantum(row.Values[j])
			n[at]++
		}
		return
	}
	codes := row.Codes[:len(row.Index)]
	for j, at := range row.Index {
		s[at] += a.lut[codes[j]]
		n[at]++
	}
}

func (a *fixed) end(out []float32) {
	for i, s := range a.s {
		switch {
		case a.n[i] == 0:
			out[i] = 0
		case a.sum:
			out[i] = float32(float64(s) / a.scale.unit)
		default:
			out[i] = float32(float64(s) / a.scale.unit / float64(a.n[i]))
		}
	}
}
