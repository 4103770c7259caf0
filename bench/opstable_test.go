package bench

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ringside-go/ringside/collective/testsize"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cpu"
)

// Every operation of the op table has a row, and one without is named.
func TestOpsTableComplete(t *testing.T) {
	rows := tableRows()
	if err := missingRows(rows); err != nil {
		t.Fatal(err)
	}
	rows = slices.DeleteFunc(rows, func(r tableRow) bool { return r.op == tensor.OpTanh })
	if err := missingRows(rows); !errors.Is(err, ErrNoRow) || !strings.Contains(err.Error(), ": tanh;") {
		t.Errorf("without tanh: %v", err)
	}
}

func tableSession(t *testing.T) *tensor.Session {
	t.Helper()
	s, err := cpu.NewSession(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// recordRow records a row on operands that take no memory, and returns the error of that.
func recordRow(s *tensor.Session, row *tableRow) (err error) {
	s.Scope(func(*tensor.Scope) {
		var made []*tensor.Tensor
		for _, o := range row.in {
			made = append(made, tensor.Full(s, o.dtype, 1).Expand(o.base()...))
		}
		err = row.record(s, made).Err()
	})
	return err
}

// Rows have names of their own, and are operations that can be recorded.
func TestOpsTableRows(t *testing.T) {
	s := tableSession(t)
	seen := map[string]bool{}
	for _, row := range tableRows() {
		if seen[row.name()] {
			t.Errorf("two rows are called %q", row.name())
		}
		seen[row.name()] = true
		if err := recordRow(s, &row); err != nil {
			t.Errorf("%s: %v", row.name(), err)
		}
	}
	t.Logf("%d rows", len(seen))
}

// Every operation has a row for every dtype that it can be recorded on without a cast,
// and for each of those one in every layout, unless it makes layouts itself. Products and
// operations on images have no short rows.
func TestOpsTableWhole(t *testing.T) {
	s := tableSession(t)
	rows := tableRows()
	images := []tensor.Op{tensor.OpMaxPool2D, tensor.OpMaxPool2DGrad, tensor.OpAvgPool2D, tensor.OpAvgPool2DGrad}
	for _, op := range tensor.Ops() {
		var template *tableRow
		at := -1 // of the operand whose dtype changes
		for i := range rows {
			if rows[i].op == op && template == nil {
				if at = slices.IndexFunc(rows[i].in, func(o operand) bool { return o.dtype == tensor.F32 }); at >= 0 {
					template = &rows[i]
				}
			}
		}
		if template == nil {
			continue // it takes bools or indices alone
		}
		layouts := []string{"dense", "transposed", "strided", "small", "short"}
		switch {
		case op.Info().Class == tensor.ClassView:
			layouts = layouts[:1]
		case op.Info().Class == tensor.ClassContraction || slices.Contains(images, op):
			layouts = layouts[:4]
		}
		for _, d := range tensor.DTypes() {
			if op.Info().Float && !d.IsFloat() || recordRow(s, &inTypes([]tensor.DType{d}, *template)[0]) != nil {
				continue
			}
			for _, how := range layouts {
				if !slices.ContainsFunc(rows, func(r tableRow) bool {
					return r.op == op && r.in[at].dtype == d && (r.layout() == how || len(layouts) == 1)
				}) {
					t.Errorf("%v of %v has no row that is %s", op, d, how)
				}
			}
		}
	}
}

// Filters leave the rows that match all of them, and one that matches none is named.
func TestOpsTableFilters(t *testing.T) {
	o := TableOptions{Ops: []string{"add", "mul"}, DTypes: []string{"i64"}, Layouts: []string{"broadcast", "small"}}
	rows, err := o.chosenRows(tableRows())
	if err != nil || len(rows) != 8 {
		t.Fatalf("%d rows, %v; expected 8", len(rows), err)
	}
	for _, r := range rows {
		if !strings.HasPrefix(r.name(), "add i64") && !strings.HasPrefix(r.name(), "mul i64") {
			t.Errorf("%s is left", r.name())
		}
	}
	o.Ops = append(o.Ops, "tan")
	if _, err := o.chosenRows(tableRows()); !errors.Is(err, ErrUnknown) || !strings.Contains(err.Error(), `operation "tan"`) {
		t.Errorf("an operation that there is none of: %v", err)
	}
}

// A row is settled if its ratios are clearly on one side of the limit.
func TestSettled(t *testing.T) {
	for _, c := range []struct {
		ratios []float64
		want   bool
	}{
		{[]float64{0.5, 0.6}, true}, {[]float64{0.5, 1.15}, false}, {[]float64{0.9, 1.5}, false},
		{[]float64{1.25, 1.4}, false}, {[]float64{2, 3}, true},
	} {
		if got := settled(c.ratios, 1.2); got != c.want {
			t.Errorf("settled(%v) = %v", c.ratios, got)
		}
	}
}

// tableStandIn answers in place of PyTorch, for the same time each.
type tableStandIn struct{ asked []string }

func (p *tableStandIn) row(q *rowQuestion) torchReply {
	p.asked = append(p.asked, q.Row)
	switch q.Row {
	case "lacks":
		return torchReply{Lacks: true}
	case "fails":
		return torchReply{Error: "no such function"}
	}
	return torchReply{MS: []float64{1e6, 1e6}}
}

// standInTable is a table of four rows beside a stand-in. The first and the last fail.
func standInTable(t *testing.T, saved *SavedRows) (*opsTable, *tableStandIn, []tableRow) {
	t.Helper()
	peer := &tableStandIn{}
	r := &run{Options: &Options{Scale: 100, Table: TableOptions{Saved: saved}}, Report: &Report{Bench: "ops-table"}, ctx: t.Context()}
	table := &opsTable{run: r, sess: tableSession(t), torch: peer, limit: maxOpsWorst, bandwidth: 1e6}
	x := of(tensor.F32, 16, 16)
	return table, peer, []tableRow{
		// of shapes that can't be multiplied
		{op: tensor.OpMul, in: []operand{x, of(tensor.F32, 16, 3)}, torch: "mul"},
		{op: tensor.OpExp, in: []operand{x}, torch: "exp"},
		{op: tensor.OpAdd, in: []operand{x, x}, torch: "lacks"},
		{op: tensor.OpLog, in: []operand{x}, torch: "fails"},
	}
}

// A table goes on where rows fail, names them and keeps those of the others; what is
// saved is not measured again.
func TestOpsTableRowsFail(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rows")
	for _, want := range [][]string{{"exp", "exp", "lacks", "fails"}, {"fails"}} {
		saved, err := OpenRows(path)
		if err != nil {
			t.Fatal(err)
		}
		table, peer, rows := standInTable(t, saved)
		err = table.all(rows)
		if !errors.Is(err, ErrNoRow) || !strings.Contains(err.Error(), "log f32[16,16]: PyTorch's: no such function") || !strings.Contains(err.Error(), "mul f32[16,16] f32[16,3]: ") || !strings.Contains(err.Error(), "2 of 4") {
			t.Errorf("the error is %v", err)
		}
		if !slices.Equal(peer.asked, want) {
			t.Errorf("asked %v, expected %v", peer.asked, want)
		}
		if len(table.Rows) != 2 || table.Rows[0].Row != "exp f32[16,16]" || table.Rows[0].OverTorch <= 0 || table.Rows[0].Rounds != leastRounds || table.Rows[1].Torch != 0 || table.Rows[1].Ours <= 0 {
			t.Errorf("rows %+v", table.Rows)
		}
		table.bars()
		if len(table.Bars) != 2 || !table.Bars[0].OK {
			t.Errorf("bars %+v", table.Bars)
		}
		if err := saved.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// A line that an interrupted run left without its end is cut off. Rows of another CPU
// or another scale are not taken for this one's.
func TestSavedRowsCutOff(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rows")
	text := fmt.Sprintf(`{"row":"exp f32[2]","level":"go","cpu":%q,"ours_ms":2}`, ThisMachine().CPU) + "\n" +
		`{"row":"cos f32[2]","level":"go","cpu":"another","ours_ms":2}` + "\n" + fmt.Sprintf(`{"row":"tan f32[2]","level":"go","cpu":%q,"scale":100,"ours_ms":3}`, ThisMachine().CPU) + "\n" + `{"bar":"x"}` + "\n" + `{"bench":"ops-table","row":"log`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	saved, err := OpenRows(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := saved.rows(0, 1); len(got) != 1 || got["exp f32[2]"].Ours != 2 {
		t.Errorf("read %v", got)
	}
	if got := saved.rows(0, 100); len(got) != 1 || got["tan f32[2]"].Ours != 3 {
		t.Errorf("read %v of scale 100", got)
	}
	if err := errors.Join(saved.add(OpRow{Row: "sin f32[2]"}), saved.Close()); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	if err != nil || strings.Count(string(got), "\n") != 5 || strings.Contains(string(got), `"log`) {
		t.Errorf("the file is %s, %v", got, err)
	}
}

// A file of something else is an error that names the line, and keeps what it has.
func TestSavedRowsOfAnother(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rows")
	for text, says := range map[string]string{"row\n": "line 1: ", "{\"bench\":\"notes\"}": "last line ", "{}\nnotes": "last line "} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenRows(path); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("a file of %q: %v, expected %q", text, err, says)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != text {
			t.Errorf("a file of %q has become %q, %v", text, got, err)
		}
	}
}

// The table has both sides of a row and the floor, and its bars.
func TestOpsTable(t *testing.T) {
	if testsize.Sampled() {
		t.Skip("a process of PyTorch takes its time to start")
	}
	r, err := runScenario(t, "ops-table", &Options{Rounds: 1, Scale: 100, Table: TableOptions{Filter: "silu f32"}, Self: testSelf(t)})
	needTorch(t, err)
	if len(r.Rows) != 5 || len(r.Bars) != 3 {
		t.Fatalf("%d rows and bars %v; expected 5 and 3", len(r.Rows), r.Bars)
	}
	for _, x := range r.Rows {
		if !(x.Ours > 0 && x.Torch > 0 && x.OverTorch > 0) || (x.Floor > 0) == strings.Contains(x.Row, "[8,8]") {
			t.Errorf("incomplete: %+v", x)
		}
	}
}

// PyTorch's side answers rows after those that fail, in whatever way that is.
func TestOpsTablePeer(t *testing.T) {
	if testsize.Sampled() {
		t.Skip("a process of PyTorch takes its time to start")
	}
	r := &run{Options: &Options{}, Report: &Report{}, ctx: t.Context()}
	t.Cleanup(func() {
		for _, end := range slices.Backward(r.ends) {
			if err := end(); err != nil {
				t.Error(err)
			}
		}
	})
	needTorch(t, try(func() {
		p := r.torchPeer(r.torch(), 1, untuned)
		for _, c := range []struct{ row, want string }{
			{"torch.no_such(a)", "no_such"}, {"next(iter(()))", "StopIteration"}, {"a @ torch.rand(3, 3)", "cannot be multiplied"},
		} {
			if got := p.row(&rowQuestion{Row: c.row, Setup: []string{"torch.rand(2)"}, Turn: 1, Most: 1}); !strings.Contains(got.Error, c.want) {
				t.Errorf("%s: %+v, expected an error with %q", c.row, got, c.want)
			}
		}
		if got := p.row(&rowQuestion{Row: "a & a", Setup: []string{"torch.rand(2)"}, Turn: 1, Most: 1}); !got.Lacks {
			t.Errorf("a row that PyTorch lacks: %+v", got)
		}
		if got := p.row(&rowQuestion{Row: "torch.exp(a)", Setup: []string{"torch.rand(2)"}, Turn: 1, Most: 1}); len(got.MS) != 1 {
			t.Errorf("a row after them: %+v", got)
		}
	}))
}
