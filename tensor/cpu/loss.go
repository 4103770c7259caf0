package cpu

import (
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cpu/internal/kernel"
	"github.com/ringside-go/ringside/tensor/internal/compile"
)

// crossEntropy lowers the mean loss over rows, its gradient, or both. A target that is
// neither a class nor ignored is an error. Every row's loss has a place of its own, so
// that their sum doesn't depend on the threads that compute them.
func (lw *lowerer) crossEntropy(s *compile.Step, grad, loss *compile.Operand) (f, after func(r *run) error, words int) {
	if s.Out.DType == tensor.F64 {
		return crossEntropyOf(s, lw.table64, grad, loss)
	}
	return crossEntropyOf(s, lw.table, grad, loss)
}

func crossEntropyOf[T float](s *compile.Step, table *kernel.Table[T], grad, loss *compile.Operand) (f, after func(r *run) error, words int) {
	rows, classes, gap := s.In[0].Shape[0], s.In[0].Shape[1], s.In[0].Strides[0]
	ignore := s.Ints[0]
	// target returns the class of row i; false if the row doesn't count.
	target := func(id []byte, wide bool, i int) (int, bool, error) {
		v := int64(0)
		if wide {
			v = slice[int64](id)[i]
		} else {
			v = int64(slice[int32](id)[i])
		}
		if v == ignore {
			return 0, false, nil
		}
		t, err := index(id, wide, i, classes)
		return t, true, err
	}
	counted := func(r *run) (int, error) {
		id, wide := ids(r, &s.In[1])
		n := 0
		for i := range rows {
			if i%breath == 0 && r.stopped() {
				break
			}
			switch _, ok, err := target(id, wide, i); {
			case err != nil:
				return 0, err
			case ok:
				n++
			}
		}
		return n, nil
	}
	f = func(r *run) error {
		n, err := counted(r)
		if err != nil {
			return err
		}
		x := buf[T](r, &s.In[0])
		id, wide := ids(r, &s.In[1])
		scale := T(1)
		if grad != nil {
			scale = buf[T](r, &s.In[2])[0] / T(n)
		}
		losses := slice[float64](bytesOf(r.sums))
		lo, hi := r.share(rows, 1)
		for i := lo; i < hi && !r.stopped(); i++ {
			row := []T(nil)
			if grad != nil {
				row = buf[T](r, grad)[i*classes:][:classes]
			}
			losses[i] = 0
			t, ok, err := target(id, wide, i)
			switch {
			case err != nil: // a peer may write the targets meanwhile
				return err
			case ok:
				losses[i] = float64(table.CrossEntropy(row, x[i*gap:][:classes], t, scale))
			default:
				clear(row)
			}
		}
		return nil
	}
	if loss == nil {
		return f, nil, rows
	}
	after = func(r *run) error {
		n, err := counted(r)
		if err != nil {
			return err
		}
		sum := 0.0
		for _, l := range slice[float64](bytesOf(r.sums))[:rows] {
			sum += l
		}
		buf[T](r, loss)[0] = T(sum / float64(n))
		return nil
	}
	return f, after, rows
}
