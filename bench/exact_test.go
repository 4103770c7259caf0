package bench

import "testing"

// TestExactCost: both sides are measured, and so is what exactness costs.
func TestExactCost(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	r, err := runScenario(t, "exact", &Options{Rounds: 1, Scale: 1000, Only: "qwen_t64_b24", Self: testSelf(t)})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Measurements) != 3 || r.Measurements[2].Case != "exact_cost" || !(r.Measurements[2].Median > 0) {
		t.Errorf("%+v", r)
	}
}
