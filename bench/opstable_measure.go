package bench

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ringside-go/ringside/tensor"
)

// opsTable measures rows of the table of operations.
type opsTable struct {
	*run
	sess            *tensor.Session
	torch           rowPeer
	bandwidth, peak float64 // bytes a ms, f32 GFLOP/s
	limit           float64 // of a row over PyTorch

	operands map[string]*tensor.Tensor // of the row before, by their number and form
}

// rowPeer is PyTorch as far as the table needs it.
type rowPeer interface {
	row(q *rowQuestion) torchReply
}

// rowQuestion asks for a turn of a row.
type rowQuestion struct {
	Row   string   `json:"row"`
	Setup []string `json:"setup"` // expressions of the operands
	Turn  float64  `json:"turn"`  // ms that the turn has
	Most  int      `json:"most"`  // calls
}

// all measures the rows that are not saved. It goes on where a row fails, and returns an
// error that names all rows without figures, after the report has those of the others.
func (t *opsTable) all(rows []tableRow) error {
	saved := t.Table.Saved.rows(t.Table.level(), max(t.Scale, 1))
	var lost []string
	var left []tableRow
	for _, x := range rows {
		if got, ok := saved[x.name()]; ok {
			t.Rows = append(t.Rows, got)
		} else {
			left = append(left, x)
		}
	}
	began, told := time.Now(), time.Now()
	for i := range left {
		got, err := t.measure(&left[i])
		if err != nil {
			lost = append(lost, fmt.Sprintf("%s: %v", left[i].name(), err))
			t.anew()
		} else {
			t.Rows = append(t.Rows, got)
			check(t.Table.Saved.add(got))
		}
		if time.Since(told) >= reportTime {
			told = time.Now()
			each := time.Since(began) / time.Duration(i+1)
			t.progress("rows", fmt.Sprintf("%d of %d", i+1, len(left)), "left", (each * time.Duration(len(left)-i-1)).Round(time.Second).String())
		}
	}
	slices.SortStableFunc(t.Rows, func(a, b OpRow) int { return cmp.Compare(b.OverTorch, a.OverTorch) })
	t.table = t.writeRows
	if lost != nil {
		return fmt.Errorf("%w: %d of %d: %s", ErrNoRow, len(lost), len(rows), strings.Join(lost, "; "))
	}
	return nil
}

// anew lets the next row begin by itself after one that failed: with a session without an
// error, and operands of its own.
func (t *opsTable) anew() {
	_ = t.sess.ClearErr() // all has the row's
	for _, x := range t.operands {
		x.Free()
	}
	t.operands = nil
}

// bars adds the figures that have limits.
func (t *opsTable) bars() {
	var overTorch, overFloor []float64
	for _, got := range t.Rows {
		if got.Torch > 0 {
			overTorch = append(overTorch, got.OverTorch)
		}
		if got.Floor > 0 {
			overFloor = append(overFloor, got.OverFloor)
		}
	}
	if len(overTorch) > 0 {
		t.atMost("ops_worst_over_torch", slices.Max(overTorch), t.limit)
		t.atMost("ops_median_over_torch", quantile(overTorch, 0.5), maxOpsMedian)
	}
	if len(overFloor) > 0 {
		t.atMost("ops_median_over_floor", quantile(overFloor, 0.5), maxOpsOverFloor)
	}
}

// measure measures a row on both sides. An error is that of this row alone.
func (t *opsTable) measure(x *tableRow) (got OpRow, err error) {
	got = OpRow{Bench: t.Bench, Row: x.name(), Level: t.Table.level().String(), CPU: ThisMachine().CPU}
	if t.Scale > 1 {
		got.Scale = t.Scale
	}
	if err := t.prepare(x); err != nil {
		return got, err
	}
	var bytes, most int
	for _, o := range x.in {
		n := tensor.Shape(o.shape).Elems()
		bytes, most = bytes+n*o.dtype.Size(), max(most, n)
	}
	t.sess.Scope(func(*tensor.Scope) {
		y := x.record(t.sess, t.given(x))
		if err = cmp.Or(y.Err(), t.sess.Sync()); err == nil {
			n := y.Shape().Elems()
			bytes, most = bytes+n*y.DType().Size(), max(most, n)
		}
	})
	if err != nil {
		return got, err
	}
	ours, theirs, err := t.take(x)
	if err != nil {
		return got, err
	}
	got.Ours, got.Rounds = ours.median(), len(ours.rounds)
	if len(theirs.rounds) > 0 {
		got.Torch, got.OverTorch = theirs.median(), ratio(ours, theirs)
	}
	if most >= floorElems || x.flop > 0 {
		got.Floor = float64(bytes) / t.bandwidth
		if x.flop > 0 && t.peak > 0 {
			wide := float64(max(x.in[0].dtype.Size(), 4)) / 4 // f64 has half the peak
			got.Floor = max(got.Floor, x.flop*wide/t.peak*1e-6)
		}
		got.OverFloor = got.Ours / got.Floor
	}
	return got, nil
}

// prepare makes the row's operands, of which those of the row before are kept, and frees
// what that had else.
func (t *opsTable) prepare(x *tableRow) (err error) {
	before := t.operands
	t.operands = map[string]*tensor.Tensor{}
	t.sess.Scope(func(sc *tensor.Scope) {
		for i, o := range x.in {
			key := operandKey(i, o)
			made := before[key]
			if made == nil {
				made = sc.Keep(o.make(t.sess))
			}
			delete(before, key)
			t.operands[key] = made
			err = cmp.Or(err, made.Err())
		}
		for _, old := range before {
			old.Free()
		}
		err = cmp.Or(err, t.sess.Sync())
	})
	return err
}

// operandKey tells operand i of a row from others in opsTable.operands: operands of one
// row are different tensors.
func operandKey(i int, o operand) string { return fmt.Sprint(i, o, o.below) }

// given returns what prepare made, in the row's order.
func (t *opsTable) given(x *tableRow) (made []*tensor.Tensor) {
	for i, o := range x.in {
		made = append(made, t.operands[operandKey(i, o)])
	}
	return made
}

// take measures both sides in turns until the row is settled. theirs has no rounds where
// PyTorch lacks the operation for the dtype.
func (t *opsTable) take(x *tableRow) (ours, theirs *series, err error) {
	ours, theirs = &series{}, &series{}
	question := &rowQuestion{Row: x.torch, Setup: []string{}, Turn: turnTime.Seconds() * 1e3, Most: t.work(mostCalls)}
	for _, o := range x.in {
		question.Setup = append(question.Setup, o.torch())
	}
	lacks := false
	for round := 0; t.more(round, ours, theirs); round++ {
		check(t.ctx.Err())
		mine, err := t.turn(x)
		if err != nil {
			return nil, nil, err
		}
		ours.add(mine...)
		if lacks {
			continue
		}
		reply := t.torch.row(question)
		switch {
		case reply.Error != "":
			return nil, nil, fmt.Errorf("PyTorch's: %s", reply.Error)
		case reply.Lacks:
			lacks = true
		case len(reply.MS) == 0:
			return nil, nil, errors.New("PyTorch's: it took no times")
		default:
			theirs.add(reply.MS...)
		}
	}
	return ours, theirs, nil
}

// more reports whether a row needs another round.
func (t *opsTable) more(done int, ours, theirs *series) bool {
	if t.Rounds > 0 {
		return done < t.Rounds
	}
	if done < leastRounds || len(theirs.rounds) == 0 {
		return done < leastRounds
	}
	return done < mostRounds && !settled(roundRatios(ours, theirs), t.limit)
}

// settled reports whether another round would not change whether a row keeps its limit:
// all ratios, and what is within a tenth of them, lie on one side of it.
func settled(ratios []float64, limit float64) bool {
	const spread = 1.1
	return slices.Max(ratios)*spread < limit || slices.Min(ratios) > limit*spread
}

// turn returns the ms of as many calls of ours as the turn has time for.
func (t *opsTable) turn(x *tableRow) (ms []float64, err error) {
	made := t.given(x)
	once := func() {
		var y *tensor.Tensor
		t.sess.Scope(func(sc *tensor.Scope) { y = sc.Keep(x.record(t.sess, made)) })
		defer y.Free()
		check(t.sess.Sync())
	}
	err = try(func() {
		once() // not counted: the operands come back to the cores
		first := t.samples(1, millis, once)[0]
		n := min(max(int(turnTime.Seconds()*1e3/max(first, 1e-3)), 1), mostCalls)
		ms = t.samples(t.work(n), millis, once)
	})
	check(t.ctx.Err())
	return ms, err
}

// copySpeed is how many bytes, read and written, torchThreads threads move in a ms: the
// best of several copies of 16 MiB, the size of large operands.
func copySpeed() float64 {
	const part = 16 << 20 / torchThreads
	var from, to [torchThreads][]byte
	for i := range from {
		from[i], to[i] = slices.Repeat([]byte{1}, part), make([]byte, part)
	}
	best := math.Inf(1)
	for range 20 {
		var wg sync.WaitGroup
		start := time.Now()
		for i := range from {
			wg.Go(func() { copy(to[i], from[i]) })
		}
		wg.Wait()
		best = min(best, time.Since(start).Seconds()*1e3)
	}
	return 2 * torchThreads * part / best
}

// row asks for a turn of a row.
func (p *torchPeer) row(q *rowQuestion) torchReply { return p.ask(q, anyCount)[0] }
