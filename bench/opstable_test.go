package bench

import (
	"errors"
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

// Rows have names of their own, and are operations that can be recorded.
func TestOpsTableRows(t *testing.T) {
	s, err := cpu.NewSession(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	seen := map[string]bool{}
	for _, row := range tableRows() {
		if seen[row.name()] {
			t.Errorf("two rows are called %q", row.name())
		}
		seen[row.name()] = true
		s.Scope(func(*tensor.Scope) {
			var made []*tensor.Tensor
			for _, o := range row.in {
				made = append(made, o.make(s))
			}
			if err := row.record(s, made).Err(); err != nil {
				t.Errorf("%s: %v", row.name(), err)
			}
		})
	}
}

// The table has both sides of a row and the floor, and its bars.
func TestOpsTable(t *testing.T) {
	if testsize.Sampled() {
		t.Skip("a process of PyTorch takes its time to start")
	}
	r, err := runScenario(t, "ops-table", &Options{Rounds: 1, Scale: 100, Table: TableOptions{Filter: "silu f32"}, Self: testSelf(t)})
	needTorch(t, err)
	if len(r.Rows) != 4 || len(r.Bars) != 3 {
		t.Fatalf("%d rows and bars %v; expected 4 and 3", len(r.Rows), r.Bars)
	}
	for _, x := range r.Rows {
		if !(x.Ours > 0 && x.Torch > 0 && x.OverTorch > 0) || (x.Floor > 0) == strings.Contains(x.Row, "[8,8]") {
			t.Errorf("incomplete: %+v", x)
		}
	}
}
