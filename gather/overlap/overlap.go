// Package overlap finds peers that sent the same positions as others. Honest peers
// train on data of their own and choose different coefficients; a copy has the
// original's.
//
// The overlap of two peers is Σ |A∩B| / Σ k over all rows that have indices: an exact
// ratio of integers. Each rank counts the rows that it owns, and the counts are added.
//
// For each row there is a mask of peers at every coefficient. Only coefficients that
// two peers or more sent are looked at, so that the work is that of the pairs which do
// overlap:
//
//	coefficient   0    1    2    3    4
//	mask         0010 0000 0110 0000 1011   pairs (1,2), (0,1), (0,3), (1,3)
package overlap

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math/bits"

	"github.com/ringside-go/ringside/collective"
	"github.com/ringside-go/ringside/gather"
	"github.com/ringside-go/ringside/gather/codec"
)

// Level is how grave an overlap is.
type Level uint8

// The levels: at the threshold, at 0.5 and at 0.6.
const (
	None Level = iota
	High
	Max
	Mega
)

// String returns the name.
func (l Level) String() string { return [...]string{"none", "high", "max", "mega"}[l&3] }

// MarshalText returns the name.
func (l Level) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

func levelOf(o float64) Level {
	switch {
	case o >= 0.6:
		return Mega
	case o >= 0.5:
		return Max
	}
	return High
}

// Threshold is the overlap that is reported where Options say nothing.
const Threshold = 0.4

// Options of a Check. The zero value is the documented default.
type Options struct {
	Threshold float64 // 0: Threshold
	Budget    int64   // bytes of masks and rows on their way; 0: 4 MiB
}

// Pair is two peers whose overlap reaches the threshold.
type Pair struct {
	A       uint64  `json:"a"` // the smaller
	B       uint64  `json:"b"`
	Overlap float64 `json:"overlap"`

	// Offender is the later upload, by the time that came with the download; one that
	// has no time counts as the latest, and of equal times the larger peer is it, and
	// Ambiguous.
	Offender  uint64 `json:"offender"`
	Ambiguous bool   `json:"ambiguous,omitempty"`
}

// Report is the answer, the same on all ranks.
type Report struct {
	Pairs     int              `json:"pairs_checked"`
	High      int              `json:"pairs_high_ovlap"`
	RatioHigh float64          `json:"ratio_high_ovlap"`
	Mean      float64          `json:"mean_overlap"`
	Min       float64          `json:"min_overlap"`
	Max       float64          `json:"max_overlap"`
	Over      []Pair           `json:"pairs_over_thresh"`
	Levels    map[uint64]Level `json:"uids_over_thresh"`

	// positions that two peers share, by places in Result.UIDs
	Common [][]int64 `json:"-"`
	// positions that each peer sent, in rows that have indices
	Total int64 `json:"-"`
}

// JSON returns the report as all ranks have it.
func (r *Report) JSON() ([]byte, error) { return json.Marshal(r) }

// Check compares all pairs of accepted peers.
func Check(ctx context.Context, ranks gather.Ranks, r *gather.Result, m *codec.Manifest, o *Options) (*Report, error) {
	if o == nil {
		o = &Options{}
	}
	budget := cmp.Or(o.Budget, 4<<20)
	n := len(r.Peers)
	c := &counter{m: m, n: n, words: (n + 63) / 64, common: make([]int64, n*n)}
	rep := &Report{Over: []Pair{}, Levels: map[uint64]Level{}}
	for i := range m.Params {
		if q := &m.Params[i]; q.Index != codec.Dense {
			rep.Total += int64(q.Rows) * int64(q.K)
		}
	}
	if n >= 2 {
		walk := gather.WalkOptions{Exchange: budget / 2, Rows: func(p *codec.Param) int {
			return int(max(budget/2/int64(p.TotalK*8*c.words+2*ranks.Size()*p.MaxRowsLen(1)), 1))
		}}
		if err := r.Walk(ctx, ranks, m, walk, c); err != nil {
			return nil, fmt.Errorf("overlap: %w", err)
		}
		if ranks.Group != nil {
			if err := collective.AllReduce(ctx, ranks.Group, c.common, c.common, collective.Sum); err != nil {
				return nil, err
			}
		}
	}
	for i := range n {
		rep.Common = append(rep.Common, c.common[i*n:(i+1)*n])
		rep.Common[i][i] = rep.Total
		for j := range i {
			rep.Common[i][j] = rep.Common[j][i]
		}
	}
	rep.summarize(r, cmp.Or(o.Threshold, Threshold))
	return rep, nil
}

// summarize fills in what follows from the counts.
func (rep *Report) summarize(r *gather.Result, threshold float64) {
	var sum int64
	for i := range r.Peers {
		for j := i + 1; j < len(r.Peers) && rep.Total > 0; j++ {
			sum += rep.Common[i][j]
			o := float64(rep.Common[i][j]) / float64(rep.Total)
			if rep.Pairs++; rep.Pairs == 1 {
				rep.Min = o
			}
			rep.Min, rep.Max = min(rep.Min, o), max(rep.Max, o)
			if o < threshold {
				continue
			}
			rep.High++
			pair := blame(&r.Peers[i], &r.Peers[j])
			pair.Overlap = o
			rep.Over = append(rep.Over, pair)
			rep.raise(pair.Offender, levelOf(o))
		}
	}
	if rep.Pairs > 0 {
		rep.Mean = float64(sum) / float64(rep.Total) / float64(rep.Pairs)
		rep.RatioHigh = float64(rep.High) / float64(rep.Pairs)
	}
}

// raise keeps a peer's gravest level.
func (rep *Report) raise(uid uint64, l Level) { rep.Levels[uid] = max(rep.Levels[uid], l) }

// blame finds the offender of two peers.
func blame(a, b *gather.Record) Pair {
	if a.UID > b.UID {
		a, b = b, a
	}
	p := Pair{A: a.UID, B: b.UID, Offender: b.UID}
	switch {
	case a.Modified == b.Modified:
		p.Ambiguous = true
	case a.Modified == 0 || b.Modified != 0 && a.Modified > b.Modified:
		p.Offender = a.UID
	}
	return p
}

// counter is the visitor that counts.
type counter struct {
	m        *codec.Manifest
	n, words int
	common   []int64 // i·n+j for i < j

	skip  bool
	width int
	masks []uint64 // row, coefficient, word
	row   codec.Row
	list  []int
}

func (c *counter) Begin(p, _, n int) error {
	q := &c.m.Params[p]
	if c.skip = q.Index == codec.Dense; c.skip {
		return nil
	}
	c.width = q.TotalK
	if size := n * q.TotalK * c.words; cap(c.masks) < size {
		c.masks = make([]uint64, size)
	} else {
		c.masks = c.masks[:size]
		clear(c.masks)
	}
	return nil
}

func (c *counter) Peers(us []int, rows []codec.Rows) error {
	if c.skip {
		return nil
	}
	for k, u := range us {
		word, bit := u/64, uint64(1)<<(u%64)
		err := rows[k].Each(&c.row, func(i int) {
			masks := c.masks[i*c.width*c.words:]
			for _, at := range c.row.Index {
				masks[int(at)*c.words+word] |= bit
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *counter) End(context.Context) error {
	if c.skip {
		return nil
	}
	if c.words == 1 {
		for _, m := range c.masks {
			for m&(m-1) != 0 {
				row := c.common[bits.TrailingZeros64(m)*c.n:]
				m &= m - 1
				for rest := m; rest != 0; rest &= rest - 1 {
					row[bits.TrailingZeros64(rest)]++
				}
			}
		}
		return nil
	}
	for at := 0; at < len(c.masks); at += c.words {
		c.list = c.list[:0]
		for w, m := range c.masks[at : at+c.words] {
			for ; m != 0; m &= m - 1 {
				c.list = append(c.list, w*64+bits.TrailingZeros64(m))
			}
		}
		for i, u := range c.list {
			row := c.common[u*c.n:]
			for _, v := range c.list[i+1:] {
				row[v]++
			}
		}
	}
	return nil
}

func (c *counter) Param(context.Context, int) error { return nil }
