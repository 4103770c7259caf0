package enginetest

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/ringside-go/ringside/tensor"
)

// failing keeps a+1 and b*2 of f32 [8], and fails on an index of 97 afterwards.
func failing(t *testing.T) *program {
	return recorded(t, func(s *tensor.Session) []*tensor.Tensor {
		a, b, idx := put(s, ramp(0, 8)), put(s, ramp(100, 8)), put(s, integers(tensor.I64, 3, 97))
		return []*tensor.Tensor{a.AddS(1), b.MulS(2), a.IndexSelect(0, idx)}
	})
}

func (s contracts) failedBatch(t *testing.T) {
	d := s.driver(t)
	other := d.put(ramp(50, 8))[0]
	p := failing(t).flags(nil, false)

	in := d.put(p.inputs...)
	b := d.batch(p, in...)
	u := d.uploadOf(ramp(7, 3))
	b.Uploads = append(b.Uploads, u)
	err := d.fails(b, tensor.ErrIndex)
	d.gone("a result that failed", b.Base+2)
	if f, ok := err.(*tensor.Failure); ok && f.Base == b.Base && f.Rest {
		d.holds("a result beside one that failed", b.Base, ramp(1, 8))
		d.holds("another", b.Base+1, steps(200, 2, 8))
	} else {
		d.gone("a result of a program that failed as a whole", b.Base, b.Base+1)
	}
	d.holds("an upload of a failed batch", u.ID, ramp(7, 3))
	for k, id := range in {
		d.holds("an input of a failed program", id, p.inputs[k])
	}

	freed := d.put(ramp(60, 8))[0]
	p = p.flags(nil, true)
	p.p.Externals[1].Donated = false
	b = d.batch(p, in...)
	b.Frees = []uint64{freed}
	d.fails(b, tensor.ErrIndex)
	d.gone("a donated input of a failed program", in[0], in[2])
	d.gone("what a failed batch meant to free", freed)
	d.holds("the input that wasn't donated", in[1], p.inputs[1])
	d.holds("a bystander", other, ramp(50, 8))

	q := plusOne(t, 8).flags(nil, true) // the engine goes on
	b = d.batch(q, in[1])
	d.must(b)
	d.holds("the next program's result", b.Base, ramp(101, 8))
}

func (s contracts) unknownInput(t *testing.T) {
	d := s.driver(t)
	p := recordedOne(t, func(s *tensor.Session) *tensor.Tensor { return put(s, ramp(0, 4)).Add(put(s, ramp(1, 4))) }).flags(nil, false)
	id := d.put(ramp(0, 4))[0]
	b := d.batch(p, id, 999)
	if err := d.fails(b, tensor.ErrUnknown); err != nil && !strings.Contains(err.Error(), "999") {
		t.Errorf("the error doesn't name the id 999: %v", err)
	}
	d.gone("the result", b.Base)
	d.holds("the other input", id, ramp(0, 4))
}

// lateErrors wants the error of a batch without a wait to come once, with the next batch
// that is waited for.
func (s contracts) lateErrors(t *testing.T) {
	d := s.driver(t)
	p := failing(t).flags(nil, false)
	in := d.put(p.inputs...)
	_, err := d.submit(d.batch(p, in...))
	if err == nil {
		_, err = d.submit(&tensor.Batch{Base: d.next, Sync: true})
	}
	if !errors.Is(err, tensor.ErrIndex) {
		t.Errorf("error is %v, expected one that unwraps to ErrIndex", err)
	}
	if _, err := d.submit(&tensor.Batch{Base: d.next, Sync: true}); err != nil {
		t.Errorf("the error came twice: %v", err)
	}
	d.holds("an input", in[0], p.inputs[0])
}

// indexErrors wants every operation that can fail on its values to fail, with the
// instruction and the value in the error.
func (s contracts) indexErrors(t *testing.T) {
	d := s.driver(t)
	for _, dt := range []tensor.DType{tensor.I32, tensor.I64} {
		for _, bad := range []int64{97, -6} {
			idx := integers(dt, 1, bad, 2, 0)
			cases := fallible(idx)
			for _, op := range tensor.Ops() {
				if !op.Info().Fallible {
					continue
				}
				f := cases[op]
				if f == nil {
					t.Errorf("%v can fail and has no test here", op)
					continue
				}
				p := recordedOne(t, f).flags(nil, false)
				at := slices.IndexFunc(p.p.Instrs, func(in tensor.Instr) bool { return in.Op == op })
				err := d.fails(d.batch(p, d.put(p.inputs...)...), tensor.ErrIndex)
				var re *tensor.RunError
				if !errors.As(err, &re) {
					t.Errorf("%v: error %v is no *tensor.RunError", op, err)
					continue
				}
				if re.Instr != at || re.Op != op.String() || !strings.Contains(re.Inputs, idx.dt.String()+"[") {
					t.Errorf("%v: error is of instruction %d, %q of %q; expected %d and its inputs", op, re.Instr, re.Op, re.Inputs, at)
				}
				if want := map[int64]string{97: "97", -3: "-3"}[bad]; !strings.Contains(err.Error(), want) {
					t.Errorf("%v: the error doesn't name the index %s: %v", op, want, err)
				}
			}
		}
	}
	x := ramp(0, 5, 4)
	d.holds("what came before", d.put(x)[0], x)
}

// fallible returns for each operation that can fail a call of it with an index of 4
// elements, which may have up to 3 values less than 3.
func fallible(idx *array) map[tensor.Op]func(s *tensor.Session) *tensor.Tensor {
	x := ramp(0, 5, 4)
	return map[tensor.Op]func(s *tensor.Session) *tensor.Tensor{
		tensor.OpIndexSelect: func(s *tensor.Session) *tensor.Tensor { return put(s, x).IndexSelect(0, put(s, idx)) },
		tensor.OpIndexAdd: func(s *tensor.Session) *tensor.Tensor {
			return put(s, x).IndexAdd(0, put(s, idx), put(s, ramp(0, 4, 4)))
		},
		tensor.OpGather: func(s *tensor.Session) *tensor.Tensor { return put(s, x).Gather(0, put(s, idx).Reshape(1, 4)) },
		tensor.OpScatterAdd: func(s *tensor.Session) *tensor.Tensor {
			return put(s, x).ScatterAdd(0, put(s, idx).Reshape(1, 4), put(s, ramp(0, 1, 4)))
		},
		tensor.OpOneHot: func(s *tensor.Session) *tensor.Tensor { return put(s, idx).OneHot(tensor.F32, 3) },
		tensor.OpCrossEntropy: func(s *tensor.Session) *tensor.Tensor {
			return put(s, ramp(0, 4, 5)).CrossEntropy(put(s, idx), -100)
		},
		tensor.OpCrossEntropyGrad: func(s *tensor.Session) *tensor.Tensor {
			return s.Apply(tensor.OpCrossEntropyGrad, []int64{-100}, tensor.T(put(s, ramp(0, 4, 5))), tensor.T(put(s, idx)), tensor.T(put(s, floats(tensor.Shape{}, 1))))
		},
	}
}

func (s contracts) noSpace(t *testing.T) {
	d := s.driver(t)
	if buf, err := d.e.Alloc(1 << 46); !errors.Is(err, tensor.ErrNoSpace) {
		t.Errorf("Alloc of 64 TiB gave %v, %v; expected ErrNoSpace", buf, err)
	}
	p := recordedOne(t, func(s *tensor.Session) *tensor.Tensor { return tensor.Full(s, tensor.F32, 1, 1<<22, 1<<22) })
	d.fails(d.batch(p), tensor.ErrNoSpace)
	d.holds("what comes after", d.put(ramp(0, 9))[0], ramp(0, 9))
}
