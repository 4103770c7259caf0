package enginetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/ringside-go/ringside/tensor"
)

// A session's values after a program of which an instruction failed: those that depend on
// it stand for its error, others are as if it had not been there.

// lives wants x to have the value want. If the engine's programs fail as a whole, x may
// also stand for an index error.
func (s contracts) lives(t *testing.T, what string, x *tensor.Tensor, want *array) {
	t.Helper()
	got, err := tensor.Data[float32](x)
	if err != nil && s.o.Whole && errors.Is(err, tensor.ErrIndex) && !errors.Is(err, tensor.ErrUnknown) {
		return
	}
	if err != nil {
		t.Errorf("%s: %v", what, err)
		return
	}
	a := newArray(tensor.F32, x.Shape())
	for i, v := range got {
		a.f[i] = float64(v)
	}
	equal(t, a, want, nil, "%s", what)
}

// dead wants x to stand for an index error of op that names this package's tests.
func dead(t *testing.T, what string, x *tensor.Tensor, op string) {
	t.Helper()
	var at *tensor.OpError
	_, err := tensor.Data[float32](x)
	if !errors.Is(err, tensor.ErrIndex) || !errors.As(err, &at) || at.Op != op {
		t.Errorf("%s: error %v, expected ErrIndex of %s", what, err, op)
	}
	if x.Err() == nil || x.Err().Error() != err.Error() {
		t.Errorf("%s stands for %v, and reading it gave %v", what, x.Err(), err)
	}
}

// beside tests each operation that can fail in a program that also makes parameters,
// updates a value in place, and has a second failure.
func (s contracts) beside(t *testing.T) {
	for _, op := range tensor.Ops() {
		if !op.Info().Fallible {
			continue
		}
		for _, wait := range []bool{true, false} {
			t.Run(fmt.Sprintf("%v/%v", op, wait), func(t *testing.T) { s.besideOne(t, op, wait) })
		}
	}
}

// besideOne is beside for one operation. Without wait the program's end is told later.
func (s contracts) besideOne(t *testing.T, op tensor.Op, wait bool) {
	sess := tensor.NewSession(s.engine(t), nil)
	count, total := put(sess, ramp(1, 8)), put(sess, ramp(10, 8))
	must(t, sess.Sync())

	w := put(sess, ramp(0, 8)).AddS(1)
	bad := fallible(integers(tensor.I64, 0, 97, 1, 2))[op](sess)
	sum := bad.Sum().Cast(tensor.F32)
	both := w.Add(sum)
	second := w.IndexSelect(0, put(sess, integers(tensor.I64, 1, 99)))
	mixed := second.Sum().Add(sum)
	view := w.Reshape(2, 4).Transpose(0, 1)
	must(t, count.Assign(count.AddS(1)))
	must(t, total.Assign(total.Add(sum)))
	late, lost := w.MulS(2), w
	if !wait {
		must(t, ignore(sess.Flush(), tensor.ErrIndex))
		late, lost = view.MulS(2).Reshape(8), both.MulS(3)
		must(t, ignore(count.Assign(count.MulS(1)), tensor.ErrIndex))
		must(t, ignore(sess.Flush(), tensor.ErrIndex))
	}
	err := sess.Sync()
	var at *tensor.OpError
	if !errors.Is(err, tensor.ErrIndex) || !errors.As(err, &at) || at.Op != op.String() || !strings.Contains(err.Error(), "97") {
		t.Fatalf("error %v, expected one of %v that names the index 97", err, op)
	}
	if _, err := tensor.Data[float32](w); err == nil {
		t.Error("no error sticks to the session")
	}
	_ = sess.ClearErr()
	for name, x := range map[string]*tensor.Tensor{"what failed": sum, "what depends on it": both, "what an in-place update made of it": total, "what depends on two failures": mixed} {
		if x == mixed {
			if err := x.Err(); !errors.Is(err, tensor.ErrIndex) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		dead(t, name, x, op.String())
	}
	if !s.o.Whole {
		dead(t, "a second failure", second, tensor.OpIndexSelect.String())
	}
	s.lives(t, "a parameter", w, ramp(1, 8))
	s.lives(t, "an in-place update", count, ramp(2, 8))
	s.lives(t, "what it was made of later", late.Reshape(8).MulS(1), doubled(wait))
	if !wait {
		dead(t, "a later program's result", lost, op.String())
	}
	if x := both.AddS(1); !errors.Is(x.Err(), tensor.ErrIndex) {
		t.Errorf("an operation on a lost value gave %v", x.Err())
	}
	_ = sess.ClearErr()
	must(t, total.Assign(put(sess, ramp(5, 8))))
	s.lives(t, "a lost tensor that was assigned a value", total, ramp(5, 8))
	both.Free()
	must(t, sess.Sync())
}

// doubled is twice the parameter of besideOne: in order, or transposed.
func doubled(inOrder bool) *array {
	if inOrder {
		return steps(2, 2, 8)
	}
	return floats(tensor.Shape{8}, 2, 10, 4, 12, 6, 14, 8, 16)
}

// after runs programs that fail and that no call waits for, and later ones that read
// their results.
func (s contracts) after(t *testing.T) {
	sess := tensor.NewSession(s.engine(t), nil)
	x := put(sess, ramp(0, 8))
	var good, bad []*tensor.Tensor
	for i := range 20 {
		idx := integers(tensor.I64, int64(i), 3)
		y := x.IndexSelect(0, put(sess, idx)).MulS(1)
		if i >= 8 {
			bad = append(bad, y)
		} else {
			good = append(good, y)
		}
		good = append(good, x.AddS(float64(i)))
		if i > 9 {
			bad = append(bad, bad[len(bad)-2].AddS(1))
		}
		must(t, ignore(sess.Flush(), tensor.ErrIndex))
		_ = sess.ClearErr()
	}
	must(t, ignore(sess.Sync(), tensor.ErrIndex))
	_ = sess.ClearErr()
	n := 0
	for i := range 20 {
		if i < 8 {
			s.lives(t, "a value of a program that did not fail", good[n], floats(tensor.Shape{2}, float64(i), 3))
			n++
		}
		s.lives(t, fmt.Sprintf("a value of program %d", i), good[n], ramp(float64(i), 8))
		n++
	}
	for _, y := range bad {
		dead(t, "a value that failed", y, tensor.OpIndexSelect.String())
	}
}

// modelled is a tensor beside its value in a model: numbers, or the error of one of the
// indices out of range that it depends on.
type modelled struct {
	x    *tensor.Tensor
	want []float64
	bad  []int64
}

// failures runs random programs in which some indices are out of range, beside a model of
// them: sums, products, selections, updates in place, frees, and flushes.
func (s contracts) failures(t *testing.T) {
	for seed := range uint64(s.o.Programs) {
		t.Run(fmt.Sprint(s.o.Seed+seed), func(t *testing.T) { s.randomFailures(t, rand.New(rand.NewPCG(s.o.Seed+seed, 1))) })
	}
}

func (s contracts) randomFailures(t *testing.T, rng *rand.Rand) {
	const size, first = 6, 100 // of values; of the indices that are out of range
	sess := tensor.NewSession(s.engine(t), nil)
	var all []*modelled
	pick := func() *modelled { return all[rng.IntN(len(all))] }
	for k := range 3 {
		m := &modelled{x: put(sess, ramp(float64(k), size))}
		for i := range size {
			m.want = append(m.want, float64(k+i))
		}
		all = append(all, m)
	}
	next := int64(first)
	for range 40 {
		a, b := pick(), pick()
		made := &modelled{want: make([]float64, size)}
		switch rng.IntN(8) {
		case 0, 1: // a number keeps the values small
			made.bad = slices.Concat(a.bad, b.bad)
			made.x = a.x.Add(b.x).MulS(0.5)
			for i := range size {
				made.want[i] = (a.want[i] + b.want[i]) / 2
			}
		case 2, 3:
			made.bad = a.bad
			made.x = a.x.Reshape(2, 3).Transpose(0, 1).Reshape(size)
			for i := range size {
				made.want[i] = a.want[i%2*3+i/2]
			}
		case 4, 5:
			idx := make([]int64, size)
			for i := range idx {
				idx[i] = int64(rng.IntN(size))
			}
			if made.bad = a.bad; rng.IntN(3) == 0 {
				idx[rng.IntN(size)] = next
				made.bad = append(slices.Clone(a.bad), next)
				next++
			}
			made.x = a.x.IndexSelect(0, put(sess, integers(tensor.I64, idx...)))
			for i := range size {
				made.want[i] = a.want[idx[i]%size]
			}
		case 6:
			if err := a.x.Assign(b.x); err != nil && !errors.Is(err, tensor.ErrIndex) {
				t.Fatal(err)
			} else if err == nil {
				a.want, a.bad = b.want, b.bad
			}
			continue
		case 7:
			switch {
			case rng.IntN(2) == 0:
				must(t, ignore(sess.Flush(), tensor.ErrIndex))
			case rng.IntN(2) == 0:
				must(t, ignore(sess.Sync(), tensor.ErrIndex))
				_ = sess.ClearErr()
			default:
				i := rng.IntN(len(all))
				if all[i].x.Free(); len(all) > 3 {
					all = append(all[:i], all[i+1:]...)
				} else {
					all[i] = &modelled{x: put(sess, ramp(0, size)), want: []float64{0, 1, 2, 3, 4, 5}}
				}
			}
			continue
		}
		all = append(all, made)
	}
	must(t, ignore(sess.Sync(), tensor.ErrIndex))
	_ = sess.ClearErr()
	for k, m := range all {
		s.agrees(t, k, m)
	}
}

// agrees wants a tensor to be as in the model.
func (s contracts) agrees(t *testing.T, k int, m *modelled) {
	t.Helper()
	if len(m.bad) == 0 {
		s.lives(t, fmt.Sprintf("value %d", k), m.x, floats(tensor.Shape{len(m.want)}, m.want...))
		return
	}
	_, err := tensor.Data[float32](m.x)
	named := func(bad int64) bool { return strings.Contains(err.Error(), fmt.Sprintf(": %d at p", bad)) }
	if !errors.Is(err, tensor.ErrIndex) || !s.o.Whole && !slices.ContainsFunc(m.bad, named) {
		t.Errorf("value %d: error %v, expected that of an index of %d", k, err, m.bad)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// ignore returns err unless it is target.
func ignore(err, target error) error {
	if errors.Is(err, target) {
		return nil
	}
	return err
}
