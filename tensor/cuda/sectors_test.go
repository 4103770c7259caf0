package cuda

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
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
// and norms of rows with their gradients, reductions, AdamW, copies of transposed views
// and chains that read such views.
func TestSectors(t *testing.T) {
	t.Setenv("FAKECUDA_MEMORY_MIB", "64")
	api, launches := cudatest.Open(t, 1, os.Getenv)
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
	s.across()
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

// copies has copies of transposed views touch the fewest sectors where rows are whole
// sectors, and less than a tenth more than those that hold the elements in any case.
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
	r := rand.New(rand.NewPCG(1, 7))
	some := func(most float64) int { return int(8 * math.Pow(most/8, r.Float64())) }
	for _, d := range tensor.DTypes() {
		shapes := [][2]int{{8, 8}, {9, 9}, {13, 13}, {31, 31}, {33, 33}, {64, 65}, {65, 65}, {65, 129}, {129, 129}, {65, 131}, {140, 139}, {300, 259}}
		count := 12
		if testing.Short() {
			count = 2
		}
		for range count {
			shapes = append(shapes, [2]int{some(600), some(300)})
		}
		worst := 0.0
		for _, shape := range shapes {
			worst = max(worst, s.transposed(d, shape[0], shape[1]))
		}
		s.Logf("copies of %v touch at most %.3f of the sectors that hold them", d, worst)
	}
}

// transposed copies a transposed matrix, and returns the sectors that it touches over
// those that hold the matrix and its copy.
func (s *sectors) transposed(d tensor.DType, rows, columns int) float64 {
	x := s.dense(d, rows, columns)
	defer x.Free()
	y := x.T()
	all := s.launches()
	defer y.Free()
	held := 2 * ((rows*columns*d.Size() + 31) / 32)
	if len(all) != 1 || all[0].Conflicts != 0 {
		s.Fatalf("%d by %d of %v: launches %+v", rows, columns, d, all)
	}
	part := float64(all[0].Sectors) / float64(held)
	if part >= 1.1 || part < 1 {
		s.Errorf("%d by %d of %v: %s touches %d sectors, the elements lie in %d: %.3f", rows, columns, d, all[0].Kernel, all[0].Sectors, held, part)
	}
	return part
}

// across has chains with transposed operands touch the sectors of the chain and those of
// a copy of each operand.
func (s *sectors) across() {
	dtypes := []tensor.DType{tensor.F32, tensor.U8, tensor.F64, tensor.I32, tensor.BF16}
	if testing.Short() {
		dtypes = dtypes[:2]
	}
	for _, d := range dtypes {
		const rows, columns = 131, 257
		x, y := s.dense(d, rows, columns), s.dense(d, columns, rows)
		for name, f := range map[string]func(sc *tensor.Scope) *tensor.Tensor{
			"sum":      func(sc *tensor.Scope) *tensor.Tensor { return sc.Keep(x.T().Add(y).Mul(y)) },
			"twice":    func(sc *tensor.Scope) *tensor.Tensor { return sc.Keep(x.T().Mul(x.T()).Add(y)) },
			"repeated": func(sc *tensor.Scope) *tensor.Tensor { return sc.Keep(x.T().Add(y.Reshape(1, columns, rows))) },
		} {
			var z *tensor.Tensor
			s.Scope(func(sc *tensor.Scope) { z = f(sc) })
			var sectors, fewest, conflicts uint64
			launches := s.launches()
			for _, l := range launches {
				sectors, fewest, conflicts = sectors+l.Sectors, fewest+l.FewestSectors, conflicts+l.Conflicts
			}
			copied := 0
			for _, l := range launches {
				if strings.HasPrefix(l.Kernel, "transpose") {
					copied++
				}
			}
			if held := uint64(3 * rows * columns * d.Size() / 32); copied != 1 || conflicts != 0 || 10*sectors >= 11*fewest || sectors < held {
				s.Errorf("%s of %v: %d sectors, at best %d, more than %d; launches %+v", name, d, sectors, fewest, held, launches)
			}
			z.Free()
		}
		x.Free()
		y.Free()
	}
}
