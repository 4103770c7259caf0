package bench

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/ringside-go/ringside/collective/isa"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cpu"
)

const (
	maxOpsWorst     = 1.2
	maxOpsMedian    = 0.6
	maxOpsOverFloor = 1.5

	// turnTime is about how long a side of a row of the table works before the other
	// side does.
	turnTime = 5 * time.Millisecond
	// floorElems is how many elements a row's operands have at least to be compared with
	// the floor: less is the cost of a call.
	floorElems = 1 << 16
)

// ErrNoRow is an operation that the table has no row of.
var ErrNoRow = errors.New("bench: an operation without a row")

// TableOptions choose what the scenario ops-table times.
type TableOptions struct {
	// Filter restricts it to rows whose names contain this.
	Filter string
	// Level is that of our kernels; nil is the best that the machine has.
	Level *isa.Level
}

// OpRow is a row of the table of operations, times in ms. Figures that could not be
// measured are 0: PyTorch's where it lacks the operation for the dtype, the floor of rows
// that are a call more than work.
type OpRow struct {
	Bench     string  `json:"bench"`
	Row       string  `json:"row"`
	Ours      float64 `json:"ours_ms"`
	Torch     float64 `json:"torch_ms"`
	OverTorch float64 `json:"over_torch"`
	Floor     float64 `json:"floor_ms"`
	OverFloor float64 `json:"over_floor"`
}

// layout is how an operand lies in memory.
type layout int

const (
	dense      layout = iota
	transposed        // the last two dims exchanged
	strided           // every fourth row of another
)

func (l layout) String() string { return [...]string{"", " transposed", " strided"}[l] }

// operand is an operand of a row, which both sides make.
type operand struct {
	dtype  tensor.DType
	layout layout
	below  int // of an integer, 0 for 100
	shape  []int
}

// String is a type and a shape: f32[64] transposed.
func (o operand) String() string {
	return o.dtype.String() + strings.ReplaceAll(fmt.Sprint(o.shape), " ", ",") + o.layout.String()
}

// base is the shape of what the operand is a view of.
func (o operand) base() []int {
	s := slices.Clone(o.shape)
	switch n := len(s); o.layout {
	case transposed:
		s[n-1], s[n-2] = s[n-2], s[n-1]
	case strided:
		s[0] *= 4
	}
	return s
}

// make makes what the operand is a view of. Floats lie between 0 and 1.
func (o operand) make(s *tensor.Session) *tensor.Tensor {
	x := tensor.Rand(s, tensor.F32, o.base()...)
	switch {
	case o.dtype == tensor.Bool:
		return x.GtS(0.5)
	case !o.dtype.IsFloat():
		return x.MulS(float64(cmp.Or(o.below, 100))).Cast(o.dtype)
	}
	return x.Cast(o.dtype)
}

// view records the operand on what make made.
func (o operand) view(x *tensor.Tensor) *tensor.Tensor {
	switch o.layout {
	case transposed:
		return x.T()
	case strided:
		return x.Slice(tensor.By(0, o.shape[0]*4, 4))
	}
	return x
}

// torch is the operand in PyTorch.
func (o operand) torch() string {
	shape := strings.ReplaceAll(fmt.Sprint(o.base()), " ", ",")
	x := fmt.Sprintf("torch.rand(%s).to(%s)", shape, torchType(o.dtype))
	switch {
	case o.dtype == tensor.Bool:
		x = fmt.Sprintf("(torch.rand(%s) > 0.5)", shape)
	case !o.dtype.IsFloat():
		x = fmt.Sprintf("torch.randint(0, %d, %s, dtype=%s)", cmp.Or(o.below, 100), shape, torchType(o.dtype))
	}
	switch o.layout {
	case transposed:
		x += ".transpose(-1, -2)"
	case strided:
		x += "[::4]"
	}
	return x
}

func torchType(d tensor.DType) string {
	return map[tensor.DType]string{
		tensor.F32: "torch.float32", tensor.F64: "torch.float64", tensor.BF16: "torch.bfloat16", tensor.F16: "torch.float16",
		tensor.I32: "torch.int32", tensor.I64: "torch.int64", tensor.U8: "torch.uint8", tensor.Bool: "torch.bool",
	}[d]
}

// tableRow is one operation on some operands. In torch, which is the same in PyTorch, the
// operands are called a, b and c.
type tableRow struct {
	op      tensor.Op
	note    string // in the name, where the operands don't tell rows apart
	in      []operand
	ints    []int64
	scalars []float64
	torch   string
	dense   bool    // the result, a view, is copied
	flop    float64 // of products
}

func (t *tableRow) name() string {
	s := t.op.String()
	for _, o := range t.in {
		s += " " + o.String()
	}
	if t.note != "" {
		s += " " + t.note
	}
	return s
}

// record records the operation on what make made.
func (t *tableRow) record(s *tensor.Session, made []*tensor.Tensor) *tensor.Tensor {
	var args []tensor.Arg
	for i, o := range t.in {
		args = append(args, tensor.T(o.view(made[i])))
	}
	for _, x := range t.scalars {
		args = append(args, tensor.S(x))
	}
	y := s.Apply(t.op, t.ints, args...)
	if t.dense {
		y = s.Apply(tensor.OpCast, []int64{int64(y.DType())}, tensor.T(y))
	}
	return y
}

// missingRows is ErrNoRow with the operations that rows don't have; nil if they have all.
func missingRows(rows []tableRow) error {
	var names []string
	for _, op := range tensor.Ops() {
		if !slices.ContainsFunc(rows, func(t tableRow) bool { return t.op == op }) {
			names = append(names, op.String())
		}
	}
	if names == nil {
		return nil
	}
	return fmt.Errorf("%w: %s; expected one of each in tableRows", ErrNoRow, strings.Join(names, ", "))
}

// runOpsTable times every operation beside PyTorch, both with torchThreads threads, and
// gives the least time that the machine needs: for its bytes at the speed of a copy, or
// for its products at the peak that a loop in C has.
func runOpsTable(r *run) {
	rows := tableRows()
	check(missingRows(rows))
	rows = slices.DeleteFunc(rows, func(t tableRow) bool { return !strings.Contains(t.name(), r.Table.Filter) })
	if len(rows) == 0 {
		check(fmt.Errorf("%w row of ops-table: none contains %q", ErrUnknown, r.Table.Filter))
	}
	peer := r.torchPeer(r.torch(), torchThreads, untuned)
	s := r.inProcess(&cpu.Options{Threads: torchThreads, Level: r.Table.Level}).sess
	bandwidth, peak := copySpeed(), 0.0
	if c := r.arith(); c != nil {
		peak = torchThreads * c.run(r.ctx, "peak", 2)[1]
	}
	var overTorch, overFloor []float64
	for i := range rows {
		within(rows[i].name(), func() {
			got := measureRow(r, s, peer, &rows[i], bandwidth, peak)
			r.Rows = append(r.Rows, got)
			if got.Torch > 0 {
				overTorch = append(overTorch, got.OverTorch)
			}
			if got.Floor > 0 {
				overFloor = append(overFloor, got.OverFloor)
			}
		})
		if (i+1)%20 == 0 {
			r.progress("rows", i+1, "of", len(rows))
		}
	}
	slices.SortStableFunc(r.Rows, func(a, b OpRow) int { return cmp.Compare(b.OverTorch, a.OverTorch) })
	r.table = r.writeRows
	r.single("copy, 2 threads", "GB/s", bandwidth*1e-6)
	if len(overTorch) > 0 {
		r.atMost("ops_worst_over_torch", slices.Max(overTorch), maxOpsWorst)
		r.atMost("ops_median_over_torch", quantile(overTorch, 0.5), maxOpsMedian)
	}
	if len(overFloor) > 0 {
		r.atMost("ops_median_over_floor", quantile(overFloor, 0.5), maxOpsOverFloor)
	}
}

// measureRow measures one row on both sides; bandwidth is in bytes, peak in f32 GFLOP/s.
func measureRow(r *run, s *tensor.Session, peer *torchPeer, t *tableRow, bandwidth, peak float64) OpRow {
	got := OpRow{Bench: r.Bench, Row: t.name()}
	var made []*tensor.Tensor
	defer func() {
		for _, x := range made {
			x.Free()
		}
	}()
	bytes, most := 0, 0
	s.Scope(func(sc *tensor.Scope) {
		for _, o := range t.in {
			x := sc.Keep(o.make(s))
			made = append(made, x)
			n := tensor.Shape(o.shape).Elems()
			bytes, most = bytes+n*o.dtype.Size(), max(most, n)
		}
	})
	once := func() {
		var y *tensor.Tensor
		s.Scope(func(sc *tensor.Scope) { y = sc.Keep(t.record(s, made)) })
		defer y.Free()
		check(s.Sync())
	}
	s.Scope(func(*tensor.Scope) {
		y := t.record(s, made)
		n := y.Shape().Elems()
		bytes, most = bytes+n*y.DType().Size(), max(most, n)
		check(s.Sync())
	})
	question := map[string]any{"row": t.torch}
	var setup []string
	for i, o := range t.in {
		setup = append(setup, fmt.Sprintf("%c = %s", 'a'+i, o.torch()))
	}
	question["setup"] = strings.Join(setup, "\n")
	theirs := func(n int) []float64 {
		question["n"] = n
		return peer.row(question)
	}
	first := theirs(1)
	count := func(ms float64) int {
		return r.work(min(max(int(turnTime.Seconds()*1e3/max(ms, 1e-3)), 1), 1000))
	}
	ours := sampled("ringside", "ms", 0, func(int) []float64 {
		once() // not counted: the operands come back to the cores
		return []float64{quantile(r.samples(count(r.samples(1, millis, once)[0]), millis, once), 0.5)}
	})
	sides := []side{ours}
	if len(first) > 0 {
		sides = append(sides, sampled("PyTorch", "ms", 0, func(int) []float64 {
			return []float64{quantile(theirs(count(first[0])), 0.5)}
		}))
	}
	for round := range r.rounds(3) + 1 {
		for _, side := range sides {
			check(r.ctx.Err())
			if x := side.run(0); round > 0 { // the first warms up
				side.add(x...)
			}
		}
	}
	got.Ours = ours.median()
	if len(first) > 0 {
		got.Torch, got.OverTorch = sides[1].median(), ratio(ours.series, sides[1].series)
	}
	if most >= floorElems || t.flop > 0 {
		got.Floor = float64(bytes) / bandwidth
		if t.flop > 0 && peak > 0 {
			wide := float64(max(t.in[0].dtype.Size(), 4)) / 4 // f64 has half the peak
			got.Floor = max(got.Floor, t.flop*wide/peak*1e-6)
		}
		got.OverFloor = got.Ours / got.Floor
	}
	return got
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

// row asks for the ms of every time that a row is done; none where PyTorch lacks the
// operation for the dtype.
func (p *torchPeer) row(question map[string]any) []float64 {
	reply := p.ask(question, anyCount)[0]
	return reply.MS
}

// writeRows writes the table, the worst row beside PyTorch first.
func (r *Report) writeRows(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(tw, "%s\tours ms\tPyTorch ms\tratio\tfloor ms\tover floor\t\n", r.Bench)
	show := func(x float64) string {
		if x == 0 {
			return "-"
		}
		return figure(x)
	}
	for _, x := range r.Rows {
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\t\n", x.Row, show(x.Ours), show(x.Torch), show(x.OverTorch), show(x.Floor), show(x.OverFloor))
	}
	return tw.Flush()
}
