package cpu

import "github.com/ringside-go/ringside/tensor/internal/compile"

const (
	// narrowColumns is the most columns that are folded with those of other rows beside
	// them where threads share outer dims, sharedColumns where they share the rows.
	narrowColumns = 32
	sharedColumns = 256
	// joinedColumns is how many columns those of joined rows are together, at most.
	joinedColumns = 512
	// mostJoined is the most rows that are joined.
	mostJoined = 64
)

// joined returns how many rows are folded as one, a power of 2: of few columns whose rows
// lie one after another. It is 0 for others.
func (g *folding) joined() int {
	n, most := g.kept.inner(), narrowColumns
	if len(g.kept.dims) == 1 {
		most = sharedColumns
	}
	if g.kept.innerStride(0) != 1 || len(g.folded.dims) != 1 || g.folded.innerStride(0) != n || n > most {
		return 0
	}
	m := mostJoined
	for m > 1 && (m*n > joinedColumns || 4*m > g.count) {
		m /= 2
	}
	if m == 1 {
		return 0
	}
	return m
}

// narrow lowers a fold of few columns, m rows of which are one row: enough columns for
// long vectors. Threads share pieces of many rows where there is no dim outside of them.
// The pieces, and so the bits, do not depend on the number of threads.
func (f folder[S, T, A]) narrow(s *compile.Step, g folding, m int) lowered {
	x, n := s.In[0], g.kept.inner()
	rows := foldPiece / (m * n) * m // of a piece
	pieces := (g.count + rows - 1) / rows
	fold := func(r *run, sums []T, in []S, lo, hi int) {
		for ; lo < hi && !r.stopped(); lo++ {
			f.piece(r, sums[lo*n:][:n], in[lo*rows*n:min((lo+1)*rows, g.count)*n], m)
		}
	}
	end := func(r *run, i int, sums []T) {
		c := f.newColumns(r, scratchRow[T](r, 1, n), pieces)
		c.add(sums, n, pieces)
		c.finish()
		f.store(r, i, c.out)
	}
	if len(g.kept.dims) > 1 {
		return lowered{f: func(r *run) error {
			in := slice[S](r.bufs[x.Buf])
			g.tiles(r, n, func(i, at, n int) {
				sums := scratchRow[T](r, 3, pieces*n)
				fold(r, sums, in[x.Off+at:][:g.count*n], 0, pieces)
				if !r.stopped() {
					end(r, i, sums)
				}
			})
			return nil
		}}
	}
	return lowered{
		sums: (pieces*n*sizeOf[T]() + 7) / 8,
		f: func(r *run) error {
			lo, hi := r.share(pieces, 1)
			fold(r, slice[T](bytesOf(r.sums)), slice[S](r.bufs[x.Buf])[x.Off:][:g.count*n], lo, hi)
			return nil
		},
		after: func(r *run) error {
			end(r, 0, slice[T](bytesOf(r.sums))[:pieces*n])
			return nil
		},
	}
}

// newColumns returns the fold of so many rows into out.
func (f *folder[S, T, A]) newColumns(r *run, out []T, rows int) columns[T] {
	if f.pairs {
		return newColumns(r, f.fold, out, rows)
	}
	return columns[T]{fold: f.fold, out: out}
}

// piece folds rows of len(dst) columns, m of which are gone through as one.
func (f *folder[S, T, A]) piece(r *run, dst []T, x []S, m int) {
	n := len(dst)
	wide, rest := m*n, len(x)/n%m
	whole := len(x) / wide
	room := scratchRow[T](r, 1, wide+n)
	acc, last := room[:wide], room[wide:]
	if whole > 0 {
		c, most := f.newColumns(r, acc, whole), max(f.most(wide)/wide, 1)
		for at := 0; at < whole; at += most {
			f.addRows(r, &c, x[at*wide:], wide, min(most, whole-at))
		}
		c.finish()
		for k := wide / 2; k >= n; k /= 2 {
			f.fold.Columns(acc[:k], acc[k:], 0, 1, true)
		}
	}
	if rest > 0 {
		c := columns[T]{fold: f.fold, out: last}
		f.addRows(r, &c, x[whole*wide:], n, rest)
		if whole == 0 {
			acc = last
		} else {
			f.fold.Columns(acc[:n], last, 0, 1, true)
		}
	}
	copy(dst, acc)
}
