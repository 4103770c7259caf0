package enginetest

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/ringside-go/ringside/collective/testsize"
	"github.com/ringside-go/ringside/tensor"
)

// Options configure Run; nil and the zero value are the defaults.
type Options struct {
	// Seed is the seed of the random programs. Default 1. A failure prints the seed of
	// its program; with it and Programs 1 that program alone runs again.
	Seed uint64
	// Programs is the number of random programs. Default 60, of which a sampled test
	// (testsize) runs 20.
	Programs int
	// Grad computes gradients of loss, such as autograd.Grad. With it the golden
	// gradients are tested too.
	Grad func(loss *tensor.Tensor, xs ...*tensor.Tensor) ([]*tensor.Tensor, error)
	// PlanHits reads an engine's counter of programs that it ran without compiling them
	// again; nil if it has none. With it the tests of repeated programs check that they
	// were.
	PlanHits func(tensor.Engine) uint64
	// Whole says that the engine's programs fail as a whole: results that do not depend
	// on what failed may not exist either.
	Whole bool
}

// suite is one run of the tests.
type suite struct {
	o     Options
	start func(t *testing.T) tensor.Engine
}

// Run tests engines that start makes against the contract of tensor.Engine, golden values
// and the Reference. Every test begins with an engine of its own, which it closes.
func Run(t *testing.T, start func(t *testing.T) tensor.Engine, opts *Options) {
	s := &suite{start: start}
	if opts != nil {
		s.o = *opts
	}
	programs := 60
	if testsize.Sampled() {
		programs = 20
	}
	s.o.Seed, s.o.Programs = cmp.Or(s.o.Seed, 1), cmp.Or(s.o.Programs, programs)
	t.Run("contract", contracts{s}.all)
	t.Run("golden operations", s.goldenOps)
	t.Run("golden programs", s.goldenPrograms)
	t.Run("golden halves", s.goldenHalves)
	t.Run("values", s.values)
	t.Run("edges", s.edges)
	t.Run("views", s.views)
	t.Run("behaviour", behaviours{s}.all)
	t.Run("random programs", s.randomPrograms)
	t.Run("random sessions", s.randomSessions)
}

// engine starts an engine that is closed with the test.
func (s *suite) engine(t *testing.T) tensor.Engine {
	t.Helper()
	e := s.start(t)
	t.Cleanup(func() { e.Close() })
	return e
}

func (s *suite) session(t *testing.T) *tensor.Session {
	t.Helper()
	sess := tensor.NewSession(s.start(t), &tensor.SessionOptions{Seed: s.o.Seed})
	t.Cleanup(func() { sess.Close() })
	return sess
}

// testdata returns the content of a file of tensor/testdata, which lies in one of the
// folders above the test.
func testdata(t *testing.T, name string) []byte {
	t.Helper()
	at, err := os.Getwd()
	for ; err == nil && at != filepath.Dir(at); at = filepath.Dir(at) {
		if b, err := os.ReadFile(filepath.Join(at, "tensor", "testdata", name)); err == nil {
			return b
		}
	}
	t.Fatalf("no tensor/testdata/%s above the test's folder: %v", name, err)
	return nil
}

// read fetches a tensor.
func read(x *tensor.Tensor) (a *array, err error) {
	if err := x.Err(); err != nil {
		return nil, err
	}
	err = x.ViewBytes(func(b []byte) error {
		a = decode(x.DType(), x.Shape(), b)
		return nil
	})
	return a, err
}

func mustRead(t *testing.T, x *tensor.Tensor) *array {
	t.Helper()
	a, err := read(x)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// put uploads a.
func put(s *tensor.Session, a *array) *tensor.Tensor {
	return tensor.FromBytes(s, a.dt, a.encode(), a.sh...)
}

// differs describes the first element of got that is further from want than tol allows;
// "" if there is none. A nil tol allows nothing. NaN equals NaN, and a zero has no sign.
func differs(got, want *array, tol []float64) string {
	if got.dt != want.dt || !got.sh.Equal(want.sh) {
		return fmt.Sprintf("is %v%v, expected %v%v", got.dt, got.sh, want.dt, want.sh)
	}
	for k := range want.i {
		if got.i[k] != want.i[k] {
			return fmt.Sprintf("element %d is %d, expected %d", k, got.i[k], want.i[k])
		}
	}
	for k, w := range want.f {
		g := got.f[k]
		switch {
		case g == w || g != g && w != w:
		case tol == nil:
			return fmt.Sprintf("element %d is %v, expected %v exactly", k, g, w)
		case overflows(want.dt, g) && overflows(want.dt, w) && g > 0 == (w > 0):
		case math.IsInf(tol[k], 1):
		case !(math.Abs(g-w) <= tol[k]):
			return fmt.Sprintf("element %d is %v, expected %v within %.3g (off by %.3g)", k, g, w, tol[k], math.Abs(g-w))
		}
	}
	return ""
}

// equal fails the test if got differs from want by more than tol allows. The text names
// got.
func equal(t *testing.T, got, want *array, tol []float64, format string, args ...any) bool {
	t.Helper()
	diff := differs(got, want, tol)
	if diff != "" {
		t.Errorf(format+" %s", append(args, diff)...)
	}
	return diff == ""
}

// overflows reports whether x is infinite or so large that one more rounding may make it
// so.
func overflows(d tensor.DType, x float64) bool {
	switch d {
	case tensor.F16:
		return math.Abs(x) > 0.99*65504
	case tensor.F64:
		return math.Abs(x) > 0.99*math.MaxFloat64
	}
	return math.Abs(x) > 0.99*math.MaxFloat32
}

// want fails the test if x isn't within tol of the values, given row-major with x's
// shape.
func want(t *testing.T, what string, x *tensor.Tensor, tol float64, values ...float64) {
	t.Helper()
	got := mustRead(t, x)
	if got.len() != len(values) {
		t.Errorf("%s: %v has %d elements, expected %d", what, x, got.len(), len(values))
		return
	}
	for k, w := range values {
		if g := got.at(k); g != w && !(g != g && w != w) && !(math.Abs(g-w) <= tol*max(1, math.Abs(w))) {
			t.Errorf("%s: element %d is %v, expected %v", what, k, g, w)
			return
		}
	}
}
