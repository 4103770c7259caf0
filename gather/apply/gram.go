package apply

import (
	"context"
	"fmt"
	"math"
	"math/bits"

	"github.com/ringside-go/ringside/collective"
	"github.com/ringside-go/ringside/gather"
	"github.com/ringside-go/ringside/gather/codec"
)

// Gram returns the inner products of all pairs of peers, over all parameters. Each
// row's product is rounded to a fixed point that the peers' norms decide, so that the
// sums do not depend on the ranks that the rows are on.
func Gram(ctx context.Context, ranks gather.Ranks, r *gather.Result, m *codec.Manifest, budget int64) ([][]float64, error) {
	n, rows := len(r.Peers), 0
	for i := range m.Params {
		rows += m.Params[i].Rows
	}
	g := &gram{n: n, m: m, sums: make([]int64, n*n), norm: make([]float64, n)}
	g.bits = 61 - bits.Len(uint(rows))
	for u := range r.Peers {
		for _, x := range r.Peers[u].Norms {
			g.norm[u] = math.Hypot(g.norm[u], x)
		}
	}
	o := gather.WalkOptions{Exchange: budget / 2, Rows: func(p *codec.Param) int {
		return int(max(min(budget/2, tileBytes)/int64(n*p.K*8+2*ranks.Size()*p.MaxRowsLen(1)), 1))
	}}
	if err := r.Walk(ctx, ranks, m, o, g); err != nil {
		return nil, fmt.Errorf("inner products: %w", err)
	}
	if ranks.Group != nil {
		if err := collective.AllReduce(ctx, ranks.Group, g.sums, g.sums, collective.Sum); err != nil {
			return nil, err
		}
	}
	out := make([][]float64, n)
	for u := range out {
		out[u] = make([]float64, n)
		for v := range out[u] {
			s := g.sums[min(u, v)*n+max(u, v)]
			out[u][v] = math.Ldexp(float64(s), -g.bits) * g.norm[u] * g.norm[v]
		}
	}
	return out, nil
}

// gram is the visitor of Gram: it keeps the decoded rows of all peers of a tile.
type gram struct {
	n    int
	m    *codec.Manifest
	bits int
	norm []float64
	sums []int64 // u·n+v for u ≤ v

	p, rows int
	index   []uint32  // peer, row, k
	value   []float32 //
	dense   []float64
	row     codec.Row
}

func (g *gram) Begin(p, _, n int) error {
	q := &g.m.Params[p]
	g.p, g.rows = p, n
	g.index, g.value = resize(g.index, g.n*n*q.K), resize(g.value, g.n*n*q.K)
	g.dense = resize(g.dense, q.TotalK)
	clear(g.dense)
	return nil
}

func (g *gram) Peers(us []int, rows []codec.Rows) error {
	for n, u := range us {
		k := rows[n].Param.K
		err := rows[n].Each(&g.row, func(i int) {
			at := (u*g.rows + i) * k
			copy(g.index[at:], g.row.Index)
			for j := range g.row.Index {
				g.value[at+j] = rows[n].Value(&g.row, j)
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (g *gram) End(context.Context) error {
	k := g.m.Params[g.p].K
	at := func(u, i int) ([]uint32, []float32) {
		from := (u*g.rows + i) * k
		return g.index[from : from+k], g.value[from : from+k]
	}
	for i := range g.rows {
		for u := range g.n {
			if g.norm[u] == 0 {
				continue
			}
			index, value := at(u, i)
			for j, x := range index {
				g.dense[x] = float64(value[j])
			}
			for v := u; v < g.n; v++ {
				if g.norm[v] == 0 {
					continue
				}
				var s float64
				other, y := at(v, i)
				for j, x := range other {
					s += float64(g.dense[x] * float64(y[j]))
				}
				g.sums[u*g.n+v] += int64(math.RoundToEven(math.Ldexp(s/g.norm[u]/g.norm[v], g.bits)))
			}
			for _, x := range index {
				g.dense[x] = 0
			}
		}
	}
	return nil
}

func (g *gram) Param(context.Context, int) error { return nil }
