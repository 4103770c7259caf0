package gather

import (
	"context"
	"fmt"

	"github.com/ringside-go/ringside/collective"
	"github.com/ringside-go/ringside/gather/codec"
)

// Visitor is given the rows of all peers, tile by tile. Peers of a tile come some at a
// time, in any order. All ranks make as many calls of Begin, End and Param, so that
// Visitors may use collectives in these; a rank that has no rows left is given tiles of
// none.
type Visitor interface {
	// Begin begins the tile of n rows from row from of parameter p.
	Begin(p, from, n int) error
	Peers(us []int, rows []codec.Rows) error // us are places in Result.UIDs
	End(ctx context.Context) error
	Param(ctx context.Context, p int) error // p is complete on this rank
}

// WalkOptions says how a Walk goes.
type WalkOptions struct {
	// Rows returns how many rows of p a tile has, at least 1. All ranks return the same.
	Rows func(p *codec.Param) int

	// Exchange bounds the bytes of rows that are read at once, or come from and go to
	// other ranks. One peer's rows for each rank fit in any case.
	Exchange int64

	// First is the first parameter that is walked.
	First int
}

// Walk gives every rank the rows that it owns of every accepted peer. Rank r of R owns
// rows ⌊rC/R⌋ to ⌊(r+1)C/R⌋ of the C of each parameter. Rows of payloads in other
// ranks' spools come by all-to-all, as they are encoded. Payloads must hold this rank's
// share of Peers.
func (r *Result) Walk(ctx context.Context, ranks Ranks, m *codec.Manifest, o WalkOptions, v Visitor) error {
	w := &walk{r: r, ranks: ranks, m: m, o: o, v: v, held: make([][]int, ranks.Size())}
	for u := range r.Peers {
		rank := r.Peers[u].Rank
		if rank < 0 || rank >= len(w.held) {
			return fmt.Errorf("gather: peer %d lies at rank %d, expected one of %d ranks", r.Peers[u].UID, rank, len(w.held))
		}
		if rank == ranks.Rank() && r.Payloads[r.Peers[u].UID] == nil {
			return fmt.Errorf("gather: the payload of peer %d is not in the spool of rank %d", r.Peers[u].UID, rank)
		}
		w.held[rank] = append(w.held[rank], u)
	}
	for p := o.First; p < len(m.Params); p++ {
		if err := w.param(ctx, p); err != nil {
			return fmt.Errorf("%s: %w", m.Params[p].Name, err)
		}
		if err := v.Param(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// walk is one Walk.
type walk struct {
	r     *Result
	ranks Ranks
	m     *codec.Manifest
	o     WalkOptions
	v     Visitor
	held  [][]int // by rank: places in UIDs of the payloads that it has
	rows  []codec.Rows
	in    []codec.Rows // that refer to what other ranks sent
}

// tile returns the rows of a rank in a step.
func (w *walk) tile(p, rank, step, rows int) (from, n int) {
	c, size := w.m.Params[p].Rows, w.ranks.Size()
	lo, hi := rank*c/size, (rank+1)*c/size
	from = min(lo+step*rows, hi)
	return from, min(rows, hi-from)
}

func (w *walk) param(ctx context.Context, p int) error {
	q := &w.m.Params[p]
	rows := max(w.o.Rows(q), 1)
	most := (q.Rows + w.ranks.Size() - 1) / w.ranks.Size()
	for step := range (most + rows - 1) / rows {
		if err := ctx.Err(); err != nil {
			return err
		}
		from, n := w.tile(p, w.ranks.Rank(), step, rows)
		if err := w.v.Begin(p, from, n); err != nil {
			return err
		}
		var err error
		if w.ranks.Size() == 1 {
			err = w.own(p, from, n)
		} else {
			err = w.exchange(ctx, p, step, rows)
		}
		if err != nil {
			return err
		}
		if err := w.v.End(ctx); err != nil {
			return err
		}
	}
	return nil
}

// readBytes bounds the rows that a rank alone reads at once: as many as stay in a cache
// while they are added up.
const readBytes = 512 << 10

// own visits the rows of payloads that this rank has, some payloads at a time.
func (w *walk) own(p, from, n int) error {
	batch := int(max(min(w.o.Exchange, readBytes)/int64(w.m.Params[p].MaxRowsLen(n)), 1))
	for at := 0; at < len(w.held[0]); at += batch {
		us := w.slice(0, at, batch)
		w.rows = grown(w.rows, len(us))
		for i, u := range us {
			if err := w.read(&w.rows[i], u, p, from, n); err != nil {
				return err
			}
		}
		if err := w.v.Peers(us, w.rows); err != nil {
			return err
		}
	}
	return nil
}

// grown returns n of s, those that were there with their memory.
func grown(s []codec.Rows, n int) []codec.Rows {
	if more := n - cap(s); more > 0 {
		s = append(s[:cap(s)], make([]codec.Rows, more)...)
	}
	return s[:n]
}

func (w *walk) read(rows *codec.Rows, u, p, from, n int) error {
	pay := w.r.Payloads[w.r.Peers[u].UID]
	if err := pay.Report.ReadRows(rows, w.m, pay.File, p, from, n); err != nil {
		return fmt.Errorf("peer %d: %w", w.r.Peers[u].UID, err)
	}
	return nil
}

// exchange has every rank send the others their rows of the payloads it has, some
// payloads at a time.
func (w *walk) exchange(ctx context.Context, p, step, rows int) error {
	q, size := &w.m.Params[p], w.ranks.Size()
	batch := int(max(w.o.Exchange/int64(2*size*q.MaxRowsLen(rows)), 1))
	most := 0
	for _, held := range w.held {
		most = max(most, len(held))
	}
	for at := 0; at < most; at += batch {
		send, counts, err := w.pack(p, step, rows, at, batch)
		if err != nil {
			return err
		}
		sizes := make([]int64, size)
		if err := collective.AllToAll(ctx, w.ranks.Group, sizes, counts); err != nil {
			return err
		}
		sendCounts, recvCounts, total := make([]int, size), make([]int, size), 0
		for rank := range size {
			sendCounts[rank], recvCounts[rank] = int(counts[rank]), int(sizes[rank])
			if sizes[rank] < 0 || sizes[rank] > int64(batch*q.MaxRowsLen(rows)) {
				return fmt.Errorf("rank %d sends %d bytes for %d rows of %d peers", rank, sizes[rank], rows, batch)
			}
			total += recvCounts[rank]
		}
		recv := make([]byte, total)
		if err := collective.AllToAllV(ctx, w.ranks.Group, recv, send, sendCounts, recvCounts); err != nil {
			return err
		}
		if err := w.unpack(p, step, rows, at, batch, recv); err != nil {
			return err
		}
	}
	return nil
}

// slice returns a batch of what a rank has.
func (w *walk) slice(rank, at, batch int) []int {
	held := w.held[rank]
	return held[min(at, len(held)):min(at+batch, len(held))]
}

func (w *walk) pack(p, step, rows, at, batch int) (send []byte, counts []int64, err error) {
	counts = make([]int64, w.ranks.Size())
	w.rows = grown(w.rows, 1)
	for rank := range counts {
		before := len(send)
		if from, n := w.tile(p, rank, step, rows); n > 0 {
			for _, u := range w.slice(w.ranks.Rank(), at, batch) {
				if err := w.read(&w.rows[0], u, p, from, n); err != nil {
					return nil, nil, err
				}
				send = w.rows[0].Append(send)
			}
		}
		counts[rank] = int64(len(send) - before)
	}
	return send, counts, nil
}

func (w *walk) unpack(p, step, rows, at, batch int, b []byte) error {
	from, n := w.tile(p, w.ranks.Rank(), step, rows)
	if n == 0 {
		return nil
	}
	for rank := range w.held {
		us := w.slice(rank, at, batch)
		w.in = grown(w.in, len(us))
		for i := range us {
			var err error
			if b, err = w.in[i].Parse(b, &w.m.Params[p], from, n); err != nil {
				return fmt.Errorf("from rank %d: %w", rank, err)
			}
		}
		if err := w.v.Peers(us, w.in); err != nil {
			return err
		}
	}
	return nil
}
