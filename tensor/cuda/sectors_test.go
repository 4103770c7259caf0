package cuda

import (
	"fmt"
	"os"
	"testing"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/autograd"
	"github.com/ringside-go/ringside/tensor/cuda/cudatest"
	"github.com/ringside-go/ringside/tensor/cuda/fakecuda"
	"github.com/ringside-go/ringside/tensor/device"
	"github.com/ringside-go/ringside/tensor/optim"
)

// sectors looks at the launches of a session.
type sectors struct {
	*testing.T
	*tensor.Session
	file string // of its launches
}

// launches returns those since it was called last.
func (s *sectors) launches() []fakecuda.Launch {
	s.Helper()
	if err := s.Sync(); err != nil {
		s.Fatal(err)
	}
	all, err := fakecuda.ReadLaunches(s.file)
	if err == nil {
		err = os.Truncate(s.file, 0)
	}
	if err != nil {
		s.Fatal(err)
	}
	return all
}

// of runs f, whose results are freed, and checks that its launches touch the fewest
// sectors of memory, without conflicts of banks.
func (s *sectors) of(name string, f func() []*tensor.Tensor) {
	s.Helper()
	out := f()
	all := s.launches()
	for _, x := range out {
		x.Free()
	}
	if len(all) == 0 {
		s.Errorf("%s: no launch", name)
	}
	for _, l := range all {
		if l.Sectors == 0 || l.Sectors != l.FewestSectors || l.Conflicts != 0 {
			s.Errorf("%s: %s touches %d sectors, at best %d; %d conflicts of banks", name, l.Kernel, l.Sectors, l.FewestSectors, l.Conflicts)
		}
	}
}

// TestSectors runs each elementwise operation on dense operands of each dtype, functions
// and norms of rows with their gradients, reductions, AdamW and copies of transposed
// views.
func TestSectors(t *testing.T) {
	t.Setenv("FAKECUDA_MEMORY_MIB", "64")
	api, launches := cudatest.Open(t, 1, os.Getenv("TESTS_NEED_GENERATOR") != "")
	d, err := Open(api, 0, &Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := &sectors{t, tensor.NewSession(device.NewOwner(d), nil), launches}
	defer s.Close()
	s.elementwise()
	s.rows()
	s.updates()
	s.copies()
}

// dense returns a value of dtype d in memory of its own.
func (s *sectors) dense(d tensor.DType, shape ...int) *tensor.Tensor {
	s.Helper()
	x := tensor.Full(s.Session, d, 1, shape...)
	s.launches()
	return x
}

func (s *sectors) elementwise() {
	const rows, columns = 8, 256
	for _, op := range tensor.Ops() {
		info := op.Info()
		if info.Class != tensor.ClassElementwise {
			continue
		}
		for _, d := range tensor.DTypes() {
			var args []tensor.Arg
			for i := range info.MinTensors {
				of := d
				if op == tensor.OpWhere && i == 0 {
					of = tensor.Bool
				}
				args = append(args, tensor.T(s.dense(of, rows, columns)))
			}
			for range info.Scalars {
				args = append(args, tensor.S(0.5))
			}
			var ints []int64
			if f := samples[op].ints; f != nil {
				ints = f(tensor.F32)
			}
			y := s.Apply(op, ints, args...)
			if y.Err() == nil {
				s.of(fmt.Sprintf("%v of %v", op, d), func() []*tensor.Tensor { return []*tensor.Tensor{y} })
			}
			_ = s.ClearErr()
		}
	}
}

func (s *sectors) rows() {
	for _, d := range []tensor.DType{tensor.F32, tensor.F64} {
		x, w, b := s.dense(d, 8, 256).RequireGrad(), s.dense(d, 256).RequireGrad(), s.dense(d, 256).RequireGrad()
		for name, f := range map[string]func() *tensor.Tensor{
			"softmax":     func() *tensor.Tensor { return x.Softmax(1) },
			"log_softmax": func() *tensor.Tensor { return x.LogSoftmax(1) },
			"layer_norm":  func() *tensor.Tensor { return x.LayerNorm(w, b, 1e-5, 1).Add(w) },
			"rms_norm":    func() *tensor.Tensor { return x.RMSNorm(w, 1e-5).Add(b) },
			"sum":         func() *tensor.Tensor { return x.Sum(1).Add(w.Sum()).Add(b.Sum()) },
			"sum of rows": func() *tensor.Tensor { return x.Sum(0).Mul(w).Mul(b) },
			"max":         func() *tensor.Tensor { return x.Max(1) },
		} {
			s.of(fmt.Sprintf("%s of %v", name, d), func() []*tensor.Tensor {
				y := f()
				grads, err := autograd.Grad(y.Square().Sum(), x)
				if err != nil {
					s.Fatal(err)
				}
				return append(grads, y)
			})
		}
	}
}

func (s *sectors) updates() {
	var ps []tensor.Named
	var grads []*tensor.Tensor
	for i, n := range []int{1024, 2048} {
		ps = append(ps, tensor.Named{Name: fmt.Sprint(i), T: s.dense(tensor.F32, n).RequireGrad()})
		grads = append(grads, s.dense(tensor.F32, n))
	}
	o := optim.NewAdamW(ps, optim.AdamWOptions{LR: 0.1, Decay: 0.1})
	for range 3 {
		s.of("AdamW", func() []*tensor.Tensor {
			s.NoGrad(func() {
				if err := o.Step(grads); err != nil {
					s.Fatal(err)
				}
			})
			return nil
		})
	}
}

// copies has copies of transposed views touch the fewest sectors, and where rows begin
// within a sector at most half of those that a generated kernel would touch: one for each
// element that it reads, as a comparison of such views does, and those that it writes.
func (s *sectors) copies() {
	for _, d := range tensor.DTypes() {
		x := s.dense(d, 3, 64, 96)
		for name, f := range map[string]func() *tensor.Tensor{
			"transposed":       func() *tensor.Tensor { return x.T() },
			"first dim last":   func() *tensor.Tensor { return x.Reshape(96, 192).T().Reshape(6, 32, 96) },
			"a part":           func() *tensor.Tensor { return x.Narrow(1, 0, 32).Narrow(2, 32, 32).T() },
			"between two dims": func() *tensor.Tensor { return x.Reshape(64, 3, 96).Permute(2, 1, 0) },
			"into a part":      func() *tensor.Tensor { return tensor.Concat(2, x.Narrow(1, 0, 32).T(), x.Narrow(1, 32, 32).T()) },
		} {
			s.of(fmt.Sprintf("copy of %v, %s", d, name), func() []*tensor.Tensor { return []*tensor.Tensor{f()} })
		}
	}
	for _, d := range tensor.DTypes() {
		const rows, columns = 65, 131
		x := s.dense(d, rows, columns)
		y := x.T()
		copied := s.launches()
		var z *tensor.Tensor
		s.Scope(func(sc *tensor.Scope) { z = sc.Keep(x.T().Ne(x.T())) })
		compared := s.launches()
		written := uint64(rows * columns * d.Size() / 32)
		if len(copied) != 1 || len(compared) != 1 || 2*copied[0].Sectors > rows*columns+written || compared[0].Sectors < rows*columns {
			s.Fatalf("%v, %d sectors at best: a copy touches those of %+v, a comparison those of %+v", d, 2*written, copied, compared)
		}
		s.Logf("copies of %v touch %.2f of the fewest sectors", d, float64(copied[0].Sectors)/float64(2*written))
		y.Free()
		z.Free()
	}
}
