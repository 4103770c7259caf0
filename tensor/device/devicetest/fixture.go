package devicetest

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/ringside-go/ringside/shm"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/device"
)

// fixture is a test with a device and one space on it.
type fixture struct {
	*testing.T
	dev   device.Device
	space device.Space
}

// newFixture opens a space. When the test ends it closes the space, and checks that all
// blocks were given back.
func newFixture(t *testing.T, d device.Device) *fixture {
	f := &fixture{T: t, dev: d, space: d.Open()}
	t.Cleanup(func() {
		f.space.Close()
		s := d.Stats()
		// A device may keep one for temporaries.
		if s.Values.Blocks > 1 || s.Arena.Blocks > 1 {
			t.Errorf("%d blocks of values and %d of host memory are left", s.Values.Blocks, s.Arena.Blocks)
		}
		if s.Arena.Leases+s.Values.Leases > 0 {
			t.Errorf("%d leases are left", s.Arena.Leases+s.Values.Leases)
		}
	})
	return f
}

// must fails the test if err is not nil.
func (f *fixture) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

// is reports an error unless err unwraps to want.
func (f *fixture) is(what string, err, want error) {
	f.Helper()
	if !errors.Is(err, want) {
		f.Errorf("%s: %v, expected %v", what, err, want)
	}
}

// block returns a block of host memory that holds b, nil for no bytes.
func (f *fixture) block(b []byte) *shm.Block {
	f.Helper()
	if len(b) == 0 {
		return nil
	}
	x, err := f.dev.Arena().Alloc(len(b))
	f.must(err)
	copy(x.Bytes(), b)
	return x
}

// put imports f32 values.
func (f *fixture) put(id uint64, xs ...float32) {
	f.Helper()
	f.must(f.space.Import(id, tensor.F32, tensor.Shape{len(xs)}, f.block(floats(xs...)), true))
}

// holds checks the bytes of a value.
func (f *fixture) holds(what string, id uint64, want []byte) {
	f.Helper()
	blocks, err := f.space.Host(id)
	if err != nil {
		f.Errorf("%s: value %d: %v", what, id, err)
		return
	}
	b := blocks[0]
	if b == nil {
		if len(want) > 0 {
			f.Errorf("%s: value %d has no block", what, id)
		}
		return
	}
	defer b.Release()
	v, ok := f.space.Lookup(id)
	if !ok || v.Bytes() != len(want) || !bytes.Equal(b.Bytes()[:len(want)], want) {
		f.Errorf("%s: value %d is %v%v %x, expected %x", what, id, v.DType, v.Shape, b.Bytes()[:min(b.Len(), len(want))], want)
	}
}

// floats returns the bytes of f32 elements.
func floats(xs ...float32) []byte {
	b := make([]byte, 0, 4*len(xs))
	for _, x := range xs {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	return b
}

// integers returns the bytes of i64 elements.
func integers(xs ...int64) []byte {
	b := make([]byte, 0, 8*len(xs))
	for _, x := range xs {
		b = binary.LittleEndian.AppendUint64(b, uint64(x))
	}
	return b
}

// floats checks the elements of an f32 value.
func (f *fixture) floats(what string, id uint64, want ...float32) {
	f.Helper()
	f.holds(what, id, floats(want...))
}

// gone checks that an id does not exist.
func (f *fixture) gone(what string, ids ...uint64) {
	f.Helper()
	for _, id := range ids {
		if v, ok := f.space.Lookup(id); ok {
			f.Errorf("%s: %d exists as %v%v", what, id, v.DType, v.Shape)
		}
		_, err := f.space.Host(id)
		f.is(what, err, tensor.ErrUnknown)
	}
}

// program is a recorded program.
type program struct {
	device.Program
	encoded []byte
	hash    tensor.Hash
	scalars []float64
	kept    []int // instructions whose results are kept
}

// recorder is an engine that keeps the program it is given.
type recorder struct{ program }

type buffer []byte

func (b buffer) Bytes() []byte { return b }
func (b buffer) Release()      {}

func (r *recorder) Name() string                       { return "recorder" }
func (r *recorder) Close() error                       { return nil }
func (r *recorder) Alloc(n int) (tensor.Buffer, error) { return make(buffer, n), nil }
func (r *recorder) Submit(_ context.Context, b *tensor.Batch) ([]tensor.Fetched, error) {
	r.encoded, r.hash, r.scalars = slices.Clone(b.Encoded), b.Hash, slices.Clone(b.Scalars)
	return nil, nil
}

// record compiles a program whose inputs are uploads of record's, and whose kept results
// are those that it returns. With donate all inputs are donated.
func (f *fixture) record(donate bool, body func(s *tensor.Session) []*tensor.Tensor) *program {
	f.Helper()
	r := &recorder{}
	s := tensor.NewSession(r, nil)
	results := body(s)
	f.must(s.Flush())
	for _, x := range results {
		f.must(x.Err())
	}
	p, err := tensor.ParseProgram(r.encoded)
	f.must(err)
	for i := range p.Externals {
		p.Externals[i].Donated = donate
	}
	r.encoded = p.Append(nil)
	r.hash = tensor.HashOf(r.encoded)
	r.Program, err = f.dev.Compile(r.hash, r.encoded)
	f.must(err)
	for i, in := range p.Instrs {
		if in.Keep {
			r.kept = append(r.kept, i)
		}
	}
	return &r.program
}

// addOne returns a program that adds 1 to an f32 vector of n elements.
func (f *fixture) addOne(n int, donate bool) *program {
	return f.record(donate, func(s *tensor.Session) []*tensor.Tensor {
		return []*tensor.Tensor{tensor.From(s, make([]float32, n)).AddS(1)}
	})
}

// pick returns a program that selects the elements of an f32 vector of n whose indices
// are the second input, and that fails when one of them is out of range.
func (f *fixture) pick(n int) *program {
	return f.record(false, func(s *tensor.Session) []*tensor.Tensor {
		x, at := tensor.From(s, make([]float32, n)), tensor.From(s, []int64{0})
		return []*tensor.Tensor{x.IndexSelect(0, at)}
	})
}

// run runs p, which must be accepted, and returns the ids of its kept results.
func (f *fixture) run(p *program, base uint64, inputs ...uint64) []uint64 {
	f.Helper()
	f.must(f.space.Run(p.Program, base, inputs, p.scalars, nil))
	return p.results(base)
}

// results returns the ids of kept results.
func (p *program) results(base uint64) []uint64 {
	ids := make([]uint64, len(p.kept))
	for i, k := range p.kept {
		ids[i] = base + uint64(k)
	}
	return ids
}
