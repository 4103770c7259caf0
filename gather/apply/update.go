package apply

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"lukechampine.com/blake3"

	"github.com/ringside-go/ringside/collective"
	"github.com/ringside-go/ringside/gather"
	"github.com/ringside-go/ringside/gather/agg"
	"github.com/ringside-go/ringside/gather/codec"
	"github.com/ringside-go/ringside/shm/plain"
)

// Sizes of tiles.
const (
	DefaultBudget = 64 << 20
	tileBytes     = 4 << 20
)

// ErrBudget is returned, before the model is touched, for a budget that is too small.
var ErrBudget = errors.New("apply: the memory budget is too small")

// Options of an update. The zero value is the documented default.
type Options struct {
	// Budget bounds the memory of tiles and of rows on their way between ranks. 0:
	// DefaultBudget.
	Budget int64

	// Optimizer makes new weights of old ones and an update.
	Optimizer Optimizer

	// Momentum is as large as the model; only an optimizer with momentum needs it.
	Momentum Weights

	// Replicated says that every rank has a model of its own: all get all of the update.
	// Otherwise each rank writes the rows that it owns, of one model that they share.
	Replicated bool

	// First is the first parameter that is updated; those before it are done.
	First int

	// AfterParam is called when a parameter is written on this rank. Nil: it is not.
	AfterParam func(ctx context.Context, p int) error
}

// Stats says what an update did. Digest is of the update, where ranks are replicas.
type Stats struct {
	Values   int64    // of peers that this rank added
	Tiles    int      //
	Skipped  []string // parameters whose bound is beyond float32
	ClipZero []string // whose median norm is 0, so that the update is
	Digest   codec.Digest
}

// Update applies a result to a model.
func Update(ctx context.Context, ranks gather.Ranks, r *gather.Result, m *codec.Manifest, w Weights, o *Options) (*Stats, error) {
	u, err := prepare(ranks, r, m, w, o)
	if err != nil {
		return nil, err
	}
	if u.o.Optimizer.Momentum != 0 && u.o.Momentum == nil {
		return nil, errors.New("apply: the optimizer has momentum: expected a place for it")
	}
	if r.Skip || len(r.UIDs) == 0 {
		return &u.stats, nil
	}
	if _, err := ranks.Agree(ctx, "the result to be applied", gather.Ready, r.Digest()); err != nil {
		return nil, err
	}
	if err := u.factors(ctx); err != nil {
		return nil, err
	}
	walk := gather.WalkOptions{Rows: u.rows, Exchange: u.o.Budget / 2, First: u.o.First}
	if err := r.Walk(ctx, ranks, m, walk, u); err != nil {
		return nil, err
	}
	u.hash.Sum(u.stats.Digest[:0])
	seal := r.Digest()
	if u.o.Replicated {
		seal = u.stats.Digest
	}
	_, err = ranks.Agree(ctx, "the update that was applied", gather.Ready, seal)
	return &u.stats, err
}

// prepare returns an update that has touched nothing, or the error of one that cannot be.
// All ranks get the same error.
func prepare(ranks gather.Ranks, r *gather.Result, m *codec.Manifest, w Weights, o *Options) (*update, error) {
	rule, err := agg.Find(r.Aggregator)
	if err != nil {
		return nil, err
	}
	u := &update{ranks: ranks, r: r, m: m, w: w, o: *o, rule: rule, hash: blake3.New(len(codec.Digest{}), nil)}
	if u.o.Budget == 0 {
		u.o.Budget = DefaultBudget
	}
	return u, u.check()
}

// update is one Update.
type update struct {
	ranks  gather.Ranks
	r      *gather.Result
	m      *codec.Manifest
	w      Weights
	o      Options
	rule   *agg.Rule
	byGram []float64 // factors by peer; nil: 1
	stats  Stats
	hash   *blake3.Hasher

	p, from, n int // the tile under way
	fold       folder
	peers      []float64 // factors of the peers that are added
	out        []float32
	all        []float32 // replicas: the tiles of all ranks
	old, mom   []float32
	dct        *codec.Transform
}

// folder puts the values of a tile together.
type folder interface {
	// begin clears a tile of n rows of a parameter.
	begin(p *codec.Param, s scale, n int)

	// add takes the tile's rows of some peers, each with its factor.
	add(rows []codec.Rows, factors []float64) error

	// end fills out with the update and returns.
	end(out []float32)

	// bytes is the memory of one row of a tile.
	bytes(p *codec.Param) int64
}

// check looks at the numbers, the budget and the shapes.
func (u *update) check() error {
	if u.m.Digest() != u.r.Manifest {
		return fmt.Errorf("apply: the result is of manifest %v, expected %v", u.r.Manifest, u.m.Digest())
	}
	for name, x := range map[string]float64{"learning rate": u.o.Optimizer.LR, "momentum": u.o.Optimizer.Momentum} {
		if !(math.Abs(x) <= math.MaxFloat32) {
			return fmt.Errorf("apply: %s %v: expected a finite float32", name, x)
		}
	}
	if len(u.r.Weights) > 0 && !u.rule.Mean() {
		return fmt.Errorf("%w: %s takes no weights of peers, expected one of clip-mean, clip-mean-peers and mean", agg.ErrRule, u.rule.Name)
	}
	u.fold = &fixed{}
	if u.rule.Vote != nil {
		u.fold = &votes{vote: u.rule.Vote, peers: len(u.r.UIDs)}
	} else if u.rule.Sum {
		u.fold = &fixed{over: 1}
	} else if u.rule.All {
		u.fold = &fixed{over: u.counted()}
	}
	for i := range u.m.Params {
		if need := u.need(&u.m.Params[i], 1); need > u.o.Budget {
			return fmt.Errorf("%w: %s needs %d bytes, the budget is %d", ErrBudget, plain.Name(u.m.Params[i].Name), need, u.o.Budget)
		}
	}
	return nil
}

// counted returns the number of peers with a weight above 0.
func (u *update) counted() int {
	n := len(u.r.UIDs)
	for _, w := range u.r.Weights {
		if w == 0 {
			n--
		}
	}
	return n
}

// need returns the memory that tiles of n rows take.
func (u *update) need(p *codec.Param, n int) int64 {
	size := int64(u.ranks.Size())
	row := u.fold.bytes(p) + int64(p.TotalK)*4*2 // out, and the weights it is applied to
	if u.o.Replicated {
		row += int64(p.TotalK) * 4 * size
	}
	rows := int64(p.MaxRowsLen(n))
	if size > 1 {
		rows *= 2 * size
	}
	return row*int64(n) + rows
}

// rows returns the rows of a tile.
func (u *update) rows(p *codec.Param) int {
	limit := min(u.o.Budget/2, tileBytes) // the other half is for rows that are read
	if u.need(p, 1) > limit {
		limit = u.o.Budget
	}
	lo, hi := 1, p.Rows
	for lo < hi {
		mid := (lo + hi + 1) / 2
		if u.need(p, mid) <= limit {
			lo = mid
		} else {
			hi = mid - 1
		}
	}
	return lo
}

// factors asks the rule for the peers' factors.
func (u *update) factors(ctx context.Context) error {
	if u.rule.Factors == nil {
		return nil
	}
	g, err := Gram(ctx, u.ranks, u.r, u.m, u.o.Budget)
	if err != nil {
		return err
	}
	// By number, for a rule may add in the order in which the peers come.
	order := make([]int, len(u.r.UIDs))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(u.r.UIDs[a], u.r.UIDs[b]) })
	sorted := make([][]float64, len(g))
	for i, a := range order {
		for _, b := range order {
			sorted[i] = append(sorted[i], g[a][b])
		}
	}
	u.byGram = make([]float64, len(g))
	for i, f := range u.rule.Factors(sorted) {
		u.byGram[order[i]] = f
	}
	return nil
}

// factor returns the factor of peer i for parameter p.
func (u *update) factor(i, p int) float64 {
	f := 1.0
	if u.byGram != nil {
		f = u.byGram[i]
	}
	if u.rule.Clip {
		f *= agg.ClipFactor(u.r.ClipNorms[p], u.r.Peers[i].Norms[p])
	}
	if w, ok := u.r.Weights[u.r.Peers[i].UID]; ok {
		f *= w
	}
	return f
}

// scale is the fixed point of one parameter: a value v is the integer v·unit, at most
// limit.
type scale struct {
	bound       float64 // of factor · norm
	unit, limit float64 // powers of two
}

func (u *update) scale(p int) scale {
	var s scale
	for i := range u.r.Peers {
		s.bound = max(s.bound, u.factor(i, p)*u.r.Peers[i].Norms[p])
	}
	_, e := math.Frexp(s.bound) // bound ≤ 2^e
	f := 61 - bits.Len(uint(len(u.r.Peers)))
	s.unit, s.limit = math.Ldexp(1, f-e), math.Ldexp(1, f)
	return s
}

// Begin implements gather.Visitor.
func (u *update) Begin(p, from, n int) error {
	q := &u.m.Params[p]
	if p != u.p || u.dct == nil {
		u.dct = nil
		if u.m.Config.DCT {
			u.dct = codec.NewTransform(q)
		}
	}
	u.p, u.from, u.n = p, from, n
	u.stats.Tiles++
	u.out = resize(u.out, n*q.TotalK)
	u.fold.begin(q, u.scale(p), n)
	return nil
}

// Peers implements gather.Visitor. A peer that the rule leaves out has factor 0.
func (u *update) Peers(us []int, rows []codec.Rows) error {
	u.peers = u.peers[:0]
	for i, peer := range us {
		f := u.factor(peer, u.p)
		u.peers = append(u.peers, f)
		if f != 0 || u.rule.Factors == nil {
			u.stats.Values += int64(rows[i].N) * int64(rows[i].Param.K)
		}
	}
	return u.fold.add(rows, u.peers)
}

// End implements gather.Visitor.
func (u *update) End(ctx context.Context) error {
	q := &u.m.Params[u.p]
	u.fold.end(u.out)
	if u.skipped(u.p) {
		clear(u.out)
	}
	for r := range u.n {
		if row := u.out[r*q.TotalK : (r+1)*q.TotalK]; u.rule.Vote != nil && beyond(row) {
			clear(row)
		}
	}
	if u.dct != nil {
		for r := range u.n {
			u.dct.Inverse(u.out[r*q.TotalK : (r+1)*q.TotalK])
		}
	}
	if !u.o.Replicated || u.ranks.Size() == 1 {
		return u.write(u.from, u.out)
	}
	size := u.ranks.Size()
	mine := make([]int64, 2*size)
	if err := collective.AllGather(ctx, u.ranks.Group, mine, []int64{int64(u.from), int64(u.n)}); err != nil {
		return err
	}
	counts, total := make([]int, size), 0
	for rank := range size {
		counts[rank] = int(mine[2*rank+1]) * q.TotalK
		total += counts[rank]
	}
	u.all = resize(u.all, total)
	if err := collective.AllGatherV(ctx, u.ranks.Group, u.all, u.out, counts); err != nil {
		return err
	}
	at := 0
	for rank, n := range counts {
		if err := u.write(int(mine[2*rank]), u.all[at:at+n]); err != nil {
			return err
		}
		at += n
	}
	return nil
}

// write applies an update to rows from on.
func (u *update) write(from int, g []float32) error {
	q := &u.m.Params[u.p]
	n := len(g) / q.TotalK
	if n == 0 {
		return nil
	}
	if u.o.Replicated {
		u.digest(g)
	}
	u.old = resize(u.old, len(g))
	if err := u.w.Read(q, u.p, from, n, u.old); err != nil {
		return err
	}
	var mom []float32
	if u.o.Optimizer.Momentum != 0 {
		u.mom = resize(u.mom, len(g))
		mom = u.mom
		if err := u.o.Momentum.Read(q, u.p, from, n, mom); err != nil {
			return err
		}
	}
	u.o.Optimizer.step(u.old, g, mom)
	if mom != nil {
		if err := u.o.Momentum.Write(q, u.p, from, n, mom); err != nil {
			return err
		}
	}
	return u.w.Write(q, u.p, from, n, u.old)
}

// digest adds an update's little-endian bytes to the digest.
func (u *update) digest(g []float32) {
	var b [4096]byte
	for len(g) > 0 {
		n := min(len(g), len(b)/4)
		for i, v := range g[:n] {
			binary.LittleEndian.PutUint32(b[4*i:], math.Float32bits(v))
		}
		u.hash.Write(b[:4*n])
		g = g[n:]
	}
}

// Param implements gather.Visitor.
func (u *update) Param(ctx context.Context, p int) error {
	name := u.m.Params[p].Name
	if u.skipped(p) {
		u.stats.Skipped = append(u.stats.Skipped, name)
	}
	if u.rule.Clip && u.r.ClipNorms[p] == 0 {
		u.stats.ClipZero = append(u.stats.ClipZero, name)
	}
	if u.o.AfterParam == nil {
		return nil
	}
	return u.o.AfterParam(ctx, p)
}

// skipped reports whether an update of p can be beyond float32: the transform can make
// one coefficient of all that is in a row. A vote is not bounded by the largest norm,
// which a liar chooses: its rows are looked at when they are decided.
func (u *update) skipped(p int) bool {
	return u.rule.Vote == nil && u.scale(p).bound*math.Sqrt(float64(u.m.Params[p].TotalK)) > math.MaxFloat32
}

// beyond reports whether the transform of a row can be beyond float32.
func beyond(row []float32) bool {
	var sq float64
	for _, x := range row {
		sq += float64(float64(x) * float64(x))
	}
	return math.Sqrt(sq*float64(len(row))) > math.MaxFloat32
}

func resize[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}
