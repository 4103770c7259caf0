package elementary_test

import (
	"math"
	"testing"

	"github.com/ringside-go/ringside/tensor/internal/elementary"
)

// TestEnds compares with values of more digits, rounded: of numbers at which package math
// is right, of those at which its assembly is not, and of the special ones.
func TestEnds(t *testing.T) {
	for _, c := range []struct {
		name    string
		f       func(float64) float64
		x, want float64
	}{
		{"exp", elementary.Exp, 1, math.E},
		{"exp", elementary.Exp, 709, 8.218407461554972e307},
		{"exp", elementary.Exp, 709.5, 1.3549863193146328e308},
		{"exp", elementary.Exp, 709.75, 1.7398368732641605e+308},
		{"exp", elementary.Exp, 709.78, 1.7928227943945155e+308},
		{"exp", elementary.Exp, 709.79, math.Inf(1)},
		{"exp", elementary.Exp, 710, math.Inf(1)},
		{"exp", elementary.Exp, 1000, math.Inf(1)},
		{"exp", elementary.Exp, -745, 5e-324},
		{"exp", elementary.Exp, math.Inf(-1), 0},
		{"log", elementary.Log, math.E, 1},
		{"log", elementary.Log, 5e-324, -744.4400719213812},
		{"log", elementary.Log, 1e-310, -713.8013788281542},
		{"log", elementary.Log, 0x1p-1022, -708.3964185322641},
		{"log", elementary.Log, 0, math.Inf(-1)},
		{"log", elementary.Log, math.Inf(1), math.Inf(1)},
	} {
		got := c.f(c.x)
		if got != c.want && !(math.Abs(got-c.want) <= 0x1p-51*math.Abs(c.want)) {
			t.Errorf("%s(%v) is %v, expected %v", c.name, c.x, got, c.want)
		}
	}
	if x := elementary.Exp(math.NaN()); x == x {
		t.Errorf("exp(NaN) is %v", x)
	}
	if x := elementary.Log(-1); x == x {
		t.Errorf("log(-1) is %v", x)
	}
}
