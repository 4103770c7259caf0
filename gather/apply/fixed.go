package apply

import (
	"math"

	"github.com/ringside-go/ringside/gather/codec"
)

// fixed adds in fixed point.
type fixed struct {
	over int // what sums are divided by; 0: the number of peers that sent the position

	sums   []int64
	counts []uint16
	width  int // coefficients of a row
	scale  scale
	levels []codec.Levels // of the peers that are added
	row    codec.Row
}

// groupPeers is how many peers are added at once, row by row: a row's sums and the peers'
// levels stay in a cache.
const groupPeers = 64

func (a *fixed) bytes(p *codec.Param) int64 { return int64(p.TotalK) * (8 + 2) }

func (a *fixed) begin(p *codec.Param, s scale, n int) {
	a.width, a.scale = p.TotalK, s
	a.sums, a.counts = resize(a.sums, n*p.TotalK), resize(a.counts, n*p.TotalK)
	clear(a.sums)
	clear(a.counts)
}

// quantum returns factor · v in fixed point. It limits a level of the codebook that is
// too large to occur in the payload, so that sums stay within 64 bits.
func (a *fixed) quantum(factor float64, v float32) int64 {
	x := math.RoundToEven(factor * float64(v) * a.scale.unit)
	return int64(min(max(x, -a.scale.limit), a.scale.limit))
}

func (a *fixed) add(rows []codec.Rows, factors []float64) error {
	for len(rows) > 0 {
		n := min(len(rows), groupPeers)
		if err := a.addSome(rows[:n], factors[:n]); err != nil {
			return err
		}
		rows, factors = rows[n:], factors[n:]
	}
	return nil
}

func (a *fixed) addSome(rows []codec.Rows, factors []float64) error {
	a.levels = resize(a.levels, groupPeers)
	for u := range rows {
		for b, v := range rows[u].Table {
			a.levels[u][b] = a.quantum(factors[u], v)
		}
	}
	for i := range len(a.sums) / a.width {
		for u := range rows {
			if factors[u] == 0 {
				continue
			}
			if err := a.addRow(i, &rows[u], &a.levels[u], factors[u]); err != nil {
				return err
			}
		}
	}
	return nil
}

// addRow adds the next row of a peer, which is row i of the tile.
func (a *fixed) addRow(i int, rows *codec.Rows, levels *codec.Levels, factor float64) error {
	sums, counts := a.sums[i*a.width:(i+1)*a.width], a.counts[i*a.width:(i+1)*a.width]
	if len(rows.Table) > 0 {
		return rows.Add(sums, counts, levels, &a.row)
	}
	if err := rows.Next(&a.row); err != nil {
		return err
	}
	for j, at := range a.row.Index {
		sums[at] += a.quantum(factor, a.row.Values[j])
		counts[at]++
	}
	return nil
}

func (a *fixed) end(out []float32) {
	inverse := 1 / a.scale.unit // exact: it is a power of two
	counts := a.counts[:len(out)]
	for i, s := range a.sums[:len(out)] {
		n := a.over
		if n == 0 {
			n = max(int(counts[i]), 1)
		}
		out[i] = float32(float64(s) * inverse / float64(n))
	}
}
