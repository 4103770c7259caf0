package bench

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/ringside-go/ringside/collective/isa"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cpu"
)

const (
	maxOpsWorst     = 1.2
	maxOpsWorstAVX2 = 1.5 // of kernels below the machine's best level
	maxOpsMedian    = 0.6
	maxOpsOverFloor = 1.5

	// turnTime is about how long a side of a row of the table works before the other side
	// does.
	turnTime = 5 * time.Millisecond
	// mostCalls is how many calls a turn has at most.
	mostCalls = 1000
	// A row takes leastRounds, and up to mostRounds until it is settled.
	leastRounds, mostRounds = 2, 7
	// floorElems is how many elements a row's operands have at least to be compared with
	// the floor: less is the cost of a call.
	floorElems = 1 << 16
	// reportTime is how often the table says how far it is.
	reportTime = 10 * time.Second
)

// ErrNoRow is an operation that the table has no row of, or a row without figures.
var ErrNoRow = errors.New("bench: rows of the table of operations are missing")

// TableOptions choose what the scenario ops-table times.
type TableOptions struct {
	// Filter restricts it to rows whose names contain this.
	Filter string
	// Ops, DTypes and Layouts restrict it to rows of one of these; nil is all.
	// TableLayouts lists the layouts.
	Ops, DTypes, Layouts []string
	// Level is that of our kernels; nil is the best that the machine has.
	Level *isa.Level
	// Saved has rows that were measured before and are not measured again, unless that
	// was on another CPU or with another Scale. It gets every other row as soon as that
	// is measured. nil keeps none.
	Saved *SavedRows
}

// level returns the level of our kernels.
func (o *TableOptions) level() isa.Level {
	if o.Level != nil {
		return *o.Level
	}
	return isa.Best()
}

// OpRow is a row of the table of operations, times in ms. Figures that could not be
// measured are 0: PyTorch's where it lacks the operation for the dtype, the floor of rows
// that are a call more than work.
type OpRow struct {
	Bench     string  `json:"bench"`
	Row       string  `json:"row"`
	Level     string  `json:"level"`           // of our kernels
	CPU       string  `json:"cpu"`             // model, as the kernel names it
	Scale     int     `json:"scale,omitempty"` // Options.Scale, if that is above 1
	Rounds    int     `json:"rounds"`
	Ours      float64 `json:"ours_ms"`
	Torch     float64 `json:"torch_ms"`
	OverTorch float64 `json:"over_torch"`
	Floor     float64 `json:"floor_ms"`
	OverFloor float64 `json:"over_floor"`
}

// scale returns by what the row's work was divided.
func (r *OpRow) scale() int { return max(r.Scale, 1) }

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

// chosenRows returns the rows that the options leave, or an error that names an option
// which leaves none.
func (o *TableOptions) chosenRows(rows []tableRow) ([]tableRow, error) {
	for _, filter := range []struct {
		what    string
		wanted  []string
		matches func(t *tableRow, want string) bool
	}{
		{"operation", o.Ops, func(t *tableRow, want string) bool { return t.op.String() == want }},
		{"dtype", o.DTypes, func(t *tableRow, want string) bool { return slices.Contains(t.dtypes(), want) }},
		{"layout", o.Layouts, func(t *tableRow, want string) bool { return t.layout() == want }},
		{"name", []string{o.Filter}, func(t *tableRow, want string) bool { return strings.Contains(t.name(), want) }},
	} {
		if len(filter.wanted) == 0 {
			continue
		}
		left := make([]bool, len(rows))
		for _, want := range filter.wanted {
			any := false
			for i := range rows {
				if filter.matches(&rows[i], want) {
					any, left[i] = true, true
				}
			}
			if !any {
				return nil, fmt.Errorf("%w row of ops-table: none of those that the other filters leave has the %s %q", ErrUnknown, filter.what, want)
			}
		}
		var kept []tableRow
		for i := range rows {
			if left[i] {
				kept = append(kept, rows[i])
			}
		}
		rows = kept
	}
	return rows, nil
}

// runOpsTable times every operation beside PyTorch, both with torchThreads threads, and
// gives the least time that the machine needs: for its bytes at the speed of a copy, or
// for its products at the peak that a loop in C has.
func runOpsTable(r *run) {
	rows := tableRows()
	check(missingRows(rows))
	rows = must(r.Table.chosenRows(rows))
	t := &opsTable{
		run:       r,
		sess:      r.inProcess(&cpu.Options{Threads: torchThreads, Level: r.Table.Level}).sess,
		torch:     r.torchPeer(r.torch(), torchThreads, untuned),
		limit:     maxOpsWorst,
		bandwidth: copySpeed(),
	}
	if r.Table.level() != isa.Best() {
		t.limit = maxOpsWorstAVX2
	}
	if c := r.arith(); c != nil {
		t.peak = torchThreads * c.run(r.ctx, "peak", 2)[1]
	}
	err := t.all(rows)
	r.single("copy, 2 threads", "GB/s", t.bandwidth*1e-6)
	t.bars()
	check(err)
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
