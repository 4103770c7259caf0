package command

import (
	"fmt"
	"strings"
	"testing"
)

// TestProductsByHand checks that a cut by rows or by columns moves nothing, that a cut of
// the inner dim costs one all-reduce of the result, and that two layers do as well. An
// all-reduce sends 2(p-1)/p of its buffer.
func TestProductsByHand(t *testing.T) {
	for workers := 2; workers <= 5; workers++ {
		out, _, err := execute(t, "plan", "products", "--workers", fmt.Sprint(workers))
		if err != nil {
			t.Fatal(err)
		}
		reduced := 2 * 4 * productDim * productDim * (workers - 1) / workers
		want := map[string][]string{
			"left by rows": {"S(0)", "0", "0"}, "right by columns": {"S(1)", "0", "0"},
			"both by the inner dim": {"P(sum)", "1", fmt.Sprint(reduced)}, "by columns, tanh, by rows": {"P(sum)", "1", fmt.Sprint(reduced)},
		}
		for line := range strings.Lines(out) {
			for name, fields := range want {
				if rest, ok := strings.CutPrefix(line, name+" "); ok {
					if got := strings.Fields(rest); strings.Join(got, " ") != strings.Join(fields, " ") {
						t.Errorf("%d workers, %s: %v, expected %v", workers, name, got, fields)
					}
					delete(want, name)
				}
			}
		}
		if len(want) > 0 {
			t.Errorf("%d workers: no %v in\n%s", workers, want, out)
		}
	}
	for _, bad := range []string{"1", "-3", "1000"} {
		if _, _, err := execute(t, "plan", "products", "--workers", bad); err == nil || !strings.Contains(err.Error(), "expected 2 to") {
			t.Errorf("--workers %s: %v", bad, err)
		}
	}
}
