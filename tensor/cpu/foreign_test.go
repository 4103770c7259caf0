package cpu_test

import (
	"bytes"
	"context"
	"errors"
	"math"
	"runtime"
	"slices"
	"testing"

	"github.com/ringside-go/ringside/shm"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cpu"
	"github.com/ringside-go/ringside/tensor/device"
	"github.com/ringside-go/ringside/tensor/enginetest"
)

// builder writes programs that no session would record but that ParseProgram accepts.
type builder struct {
	tensor.Program
}

func (b *builder) shape(dims ...int) uint32 {
	b.Shapes = append(b.Shapes, append(tensor.Shape{}, dims...))
	return uint32(len(b.Shapes) - 1)
}

func (b *builder) in(d tensor.DType, donated bool, dims ...int) tensor.Ref {
	b.Externals = append(b.Externals, tensor.External{DType: d, Donated: donated, Shape: b.shape(dims...)})
	return tensor.ExternalRef(len(b.Externals) - 1)
}

func (b *builder) scalar() tensor.Ref {
	b.NumScalars++
	return tensor.ScalarRef(b.NumScalars - 1)
}

func (b *builder) op(op tensor.Op, d tensor.DType, dims, ints []int, args ...tensor.Ref) tensor.Ref {
	b.Instrs = append(b.Instrs, tensor.Instr{
		Op: op, DType: d, NArg: uint16(len(args)), NInt: uint16(len(ints)),
		Arg: uint32(len(b.Args)), Int: uint32(len(b.Ints)), Shape: b.shape(dims...),
	})
	b.Args = append(b.Args, args...)
	for _, n := range ints {
		b.Ints = append(b.Ints, int64(n))
	}
	return tensor.Ref(len(b.Instrs) - 1)
}

func (b *builder) keep(refs ...tensor.Ref) {
	for _, r := range refs {
		b.Instrs[r].Keep = true
	}
}

// batch returns a run of the program; the encoding must be one that a receiver accepts.
func (b *builder) batch(t *testing.T, base uint64, scalars []float64, inputs ...uint64) *tensor.Batch {
	t.Helper()
	e := b.Append(nil)
	p, err := tensor.ParseProgram(e)
	if err != nil {
		t.Fatal(err)
	}
	return &tensor.Batch{Program: p, Encoded: e, Hash: tensor.HashOf(e), Base: base, Inputs: inputs, Scalars: scalars, Sync: true}
}

// smallDevice returns a device with little memory, and an engine on it.
func smallDevice(t *testing.T) (*cpu.Device, tensor.Engine) {
	t.Helper()
	d, err := cpu.New(&cpu.Options{MaxBytes: 64 << 20, Arena: shm.ArenaOptions{First: 1 << 20, Checked: true}})
	if err != nil {
		t.Fatal(err)
	}
	e := device.NewEngine(d)
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d, e
}

func upload(t *testing.T, e tensor.Engine, id uint64, d tensor.DType, fill byte, dims ...int) tensor.Upload {
	t.Helper()
	s := tensor.Shape(append([]int{}, dims...))
	u := tensor.Upload{ID: id, DType: d, Shape: s}
	if n := s.Elems() * d.Size(); n > 0 {
		b, err := e.Alloc(n)
		if err != nil {
			t.Fatal(err)
		}
		for i := range b.Bytes() {
			b.Bytes()[i] = fill
		}
		u.Buf = b
	}
	return u
}

// submit submits a batch as a session does: its own references to the uploads end with
// it.
func submit(e tensor.Engine, b *tensor.Batch) ([]tensor.Fetched, error) {
	got, err := e.Submit(context.Background(), b)
	for _, u := range b.Uploads {
		if u.Buf != nil {
			u.Buf.Release()
		}
	}
	return got, err
}

func put(t *testing.T, e tensor.Engine, us ...tensor.Upload) {
	t.Helper()
	if _, err := submit(e, &tensor.Batch{Base: 1 << 40, Uploads: us, Sync: true}); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, e tensor.Engine, id uint64) []byte {
	t.Helper()
	got, err := submit(e, &tensor.Batch{Base: 1 << 41, Fetch: []uint64{id}})
	if err != nil {
		t.Fatal(err)
	}
	defer got[0].Release()
	return bytes.Clone(got[0].Bytes)
}

// TestOneValueAsSeveralInputs gives one value as several inputs, donated or not: no two
// results may share its memory, and no result may lie where it is still read.
func TestOneValueAsSeveralInputs(t *testing.T) {
	d, e := smallDevice(t)
	put(t, e, upload(t, e, 1, tensor.U8, 5, 64))
	var b builder
	x, y := b.in(tensor.U8, true, 64), b.in(tensor.U8, true, 64)
	one := b.scalar()
	p := b.op(tensor.OpAdd, tensor.U8, []int{64}, nil, x, one)
	q := b.op(tensor.OpMul, tensor.U8, []int{64}, nil, y, one)
	b.keep(p, q)
	if _, err := submit(e, b.batch(t, 100, []float64{3}, 1, 1)); err != nil {
		t.Fatal(err)
	}
	if got := read(t, e, 100)[0]; got != 8 {
		t.Errorf("5+3 is %d", got)
	}
	if got := read(t, e, 101)[0]; got != 15 {
		t.Errorf("5*3 is %d", got)
	}
	if _, err := submit(e, &tensor.Batch{Base: 200, Frees: []uint64{100, 101}, Sync: true}); err != nil {
		t.Fatal(err)
	}
	if n := d.Stats().Arena.Blocks; n > 0 {
		t.Errorf("%d blocks are left", n)
	}

	put(t, e, upload(t, e, 2, tensor.U8, 5, 64))
	b = builder{}
	x, y = b.in(tensor.U8, true, 64), b.in(tensor.U8, false, 64)
	one = b.scalar()
	p = b.op(tensor.OpAdd, tensor.U8, []int{64}, nil, x, one)
	q = b.op(tensor.OpMul, tensor.U8, []int{64}, nil, y, one)
	b.keep(p, q)
	if _, err := submit(e, b.batch(t, 300, []float64{3}, 2, 2)); err != nil {
		t.Fatal(err)
	}
	if got := read(t, e, 301)[0]; got != 15 {
		t.Errorf("5*3 is %d after a result was written", got)
	}
}

// TestMatmulOfFlipped multiplies operands with negative strides, which the kernels don't
// take. In a scope, so that they stay views.
func TestMatmulOfFlipped(t *testing.T) {
	s := session(t)
	products := []struct {
		f    func(x *tensor.Tensor) *tensor.Tensor
		want []float64
	}{
		{func(x *tensor.Tensor) *tensor.Tensor { return x.Flip(0).Matmul(x.T()) }, []float64{32, 77, 14, 32}},
		{func(x *tensor.Tensor) *tensor.Tensor { return x.Flip(1).Matmul(x.T()) }, []float64{10, 28, 28, 73}},
		{func(x *tensor.Tensor) *tensor.Tensor { return x.Matmul(x.T().Flip(0)) }, []float64{10, 28, 28, 73}},
		{func(x *tensor.Tensor) *tensor.Tensor { return x.Flip(0, 1).Matmul(x.T()) }, []float64{28, 73, 10, 28}},
		{func(x *tensor.Tensor) *tensor.Tensor {
			return x.Expand(3, 2, 3).Flip(0).Matmul(x.T()).Slice(tensor.At(2))
		}, []float64{14, 32, 32, 77}},
	}
	for _, d := range tensor.DTypes() {
		if d == tensor.Bool {
			continue
		}
		x := tensor.From(s, []float32{1, 2, 3, 4, 5, 6}, 2, 3).Cast(d)
		for k, c := range products {
			var y *tensor.Tensor
			s.Scope(func(sc *tensor.Scope) { y = sc.Keep(c.f(x).Cast(tensor.F64)) })
			got, err := tensor.Data[float64](y)
			if err != nil {
				t.Fatalf("product %d of %v: %v", k, d, err)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("product %d of %v is %v, expected %v", k, d, got, c.want)
			}
		}
	}
}

// TestFailedFetch wants a batch whose fetch fails to leave its uploads and results.
func TestFailedFetch(t *testing.T) {
	d, e := smallDevice(t)
	put(t, e, upload(t, e, 1, tensor.U8, 5, 64))
	var b builder
	p := b.op(tensor.OpAdd, tensor.U8, []int{64}, nil, b.in(tensor.U8, false, 64), b.scalar())
	b.keep(p)
	batch := b.batch(t, 100, []float64{3}, 1)
	batch.Uploads = []tensor.Upload{upload(t, e, 2, tensor.U8, 1, 8)}
	batch.Fetch = []uint64{100, 777}
	if _, err := submit(e, batch); !errors.Is(err, tensor.ErrUnknown) {
		t.Fatalf("fetching what isn't there gave %v", err)
	}
	for id, want := range map[uint64]byte{1: 5, 2: 1, 100: 8} {
		if got := read(t, e, id)[0]; got != want {
			t.Errorf("value %d is %d, expected %d", id, got, want)
		}
	}
	if n := d.Stats().Arena.Blocks; n != 3 {
		t.Errorf("%d blocks, expected the input's, the upload's and the result's", n)
	}
}

// TestFailedUpload wants a batch whose second upload is refused to keep the others, to
// run nothing, and to free what it was to free.
func TestFailedUpload(t *testing.T) {
	d, e := smallDevice(t)
	put(t, e, upload(t, e, 1, tensor.U8, 5, 64))
	var b builder
	p := b.op(tensor.OpAdd, tensor.U8, []int{64}, nil, b.in(tensor.U8, true, 64), b.scalar())
	b.keep(p)
	batch := b.batch(t, 100, []float64{3}, 1)
	batch.Uploads = []tensor.Upload{upload(t, e, 2, tensor.U8, 1, 8), upload(t, e, 3, tensor.Bool, 7, 8), upload(t, e, 4, tensor.U8, 2, 8)}
	if _, err := submit(e, batch); err == nil {
		t.Fatal("a bool of 7 was taken")
	}
	for id, want := range map[uint64]byte{2: 1, 4: 2} {
		if got := read(t, e, id)[0]; got != want {
			t.Errorf("value %d is %d, expected %d", id, got, want)
		}
	}
	for _, id := range []uint64{1, 3, 100} {
		if _, err := submit(e, &tensor.Batch{Base: 200, Fetch: []uint64{id}}); !errors.Is(err, tensor.ErrUnknown) {
			t.Errorf("id %d: %v, expected ErrUnknown", id, err)
		}
	}
	if n := d.Stats().Arena.Blocks; n != 2 {
		t.Errorf("%d blocks are left, expected those of two uploads", n)
	}
}

// TestNoElementsButManyRows wants loops over shapes of no elements to end at once,
// whatever the other dims are.
func TestNoElementsButManyRows(t *testing.T) {
	_, e := smallDevice(t)
	const n = 1 << 20
	dims := []int{n, n, 0}
	put(t, e, upload(t, e, 1, tensor.F32, 0, dims...), upload(t, e, 2, tensor.I32, 0, dims...))
	var b builder
	x, i := b.in(tensor.F32, false, dims...), b.in(tensor.I32, false, dims...)
	eps := b.scalar()
	b.keep(
		b.op(tensor.OpCumsum, tensor.F32, dims, []int{2, 0}, x), b.op(tensor.OpCumsum, tensor.I64, dims, []int{2, 0}, i),
		b.op(tensor.OpSoftmax, tensor.F32, dims, []int{2}, x), b.op(tensor.OpTril, tensor.F32, dims, []int{0}, x),
		b.op(tensor.OpRMSNorm, tensor.F32, dims, []int{1}, x, eps), b.op(tensor.OpNeg, tensor.F32, dims, nil, x),
		b.op(tensor.OpProdGrad, tensor.F32, dims, []int{0}, x, b.op(tensor.OpReshape, tensor.F32, []int{1, n, 0}, []int{1, n, 0}, b.op(tensor.OpFull, tensor.F32, []int{0}, []int{1, 0}, eps))),
		b.op(tensor.OpConcat, tensor.F32, []int{n, n + n, 0}, []int{1}, x, x),
	)
	if _, err := submit(e, b.batch(t, 100, []float64{1}, 1, 2)); err != nil {
		t.Fatal(err)
	}
}

// TestConvolutionOfLargeWindows wants a window matrix never to be made whole: this one
// would have 69 MB.
func TestConvolutionOfLargeWindows(t *testing.T) {
	_, e := smallDevice(t)
	const n = 64
	put(t, e, upload(t, e, 1, tensor.F32, 0, 1, 1, n, n), upload(t, e, 2, tensor.F32, 0, 1, 1, n, n))
	var b builder
	x, w := b.in(tensor.F32, false, 1, 1, n, n), b.in(tensor.F32, false, 1, 1, n, n)
	y := b.op(tensor.OpConv2D, tensor.F32, []int{1, 1, n + 1, n + 1}, []int{1, 1, n / 2, n / 2, 1, 1, 1}, x, w)
	b.keep(y)
	batch := b.batch(t, 100, nil, 1, 2)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := submit(e, batch); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > 16<<20 {
		t.Errorf("it took %d bytes of the heap", got)
	}
}

// TestLongSums wants a long sum to keep its precision, in every order of memory. In a
// scope, so that views stay views.
func TestLongSums(t *testing.T) {
	s := session(t)
	want := float64(float32(0.1)) * (1 << 21)
	for name, f := range map[string]func() *tensor.Tensor{
		"flat":         func() *tensor.Tensor { return tensor.Full(s, tensor.F32, 0.1, 1<<21).Sum() },
		"rows":         func() *tensor.Tensor { return tensor.Full(s, tensor.F32, 0.1, 1<<19, 6).Narrow(1, 1, 4).Sum() },
		"down columns": func() *tensor.Tensor { return tensor.Full(s, tensor.F32, 0.1, 1<<21, 2).Sum(0).Narrow(0, 1, 1) },
		"strided":      func() *tensor.Tensor { return tensor.Full(s, tensor.F32, 0.1, 1<<21, 3).Narrow(1, 1, 1).Sum() },
		"mean": func() *tensor.Tensor {
			return tensor.Full(s, tensor.F32, 0.1, 1<<21, 3).Mean(0).Narrow(0, 2, 1).MulS(1 << 21)
		},
	} {
		var y *tensor.Tensor
		s.Scope(func(sc *tensor.Scope) { y = sc.Keep(f()) })
		if got, err := y.Item(); err != nil || math.Abs(got-want) > want*2e-6 {
			t.Errorf("%s: %v, %v; expected %v", name, got, err, want)
		}
	}
}

// TestMeanOfEqual wants the mean of equal numbers to be that number, however they lie.
func TestMeanOfEqual(t *testing.T) {
	s := session(t)
	for _, d := range []tensor.DType{tensor.F32, tensor.F64} {
		for n := 2; n < 200; n++ {
			ones := tensor.Ones(s, d, n)
			for what, y := range map[string]*tensor.Tensor{
				"flat":          ones.Mean(),
				"rows":          tensor.Ones(s, d, 2, n).Mean(1).Narrow(0, 1, 1),
				"down columns":  tensor.Ones(s, d, n, 3).Mean(0).Narrow(0, 2, 1),
				"strided":       tensor.Ones(s, d, n, 3).Narrow(1, 1, 1).Mean(),
				"behind a step": ones.MulS(2).AddS(-1).Mean(),
			} {
				if got, err := y.Item(); err != nil || got != 1 {
					t.Errorf("%s: the mean of %d ones of %v is %v, %v", what, n, d, got, err)
				}
			}
		}
	}
}

// TestLongExtremes wants a NaN or an extreme of a row that threads fold in pieces,
// wherever it is.
func TestLongExtremes(t *testing.T) {
	s := session(t)
	const n = 150_001
	for _, at := range []int{0, 1<<16 - 1, 1 << 16, n - 1} {
		for _, odd := range []float64{math.NaN(), 2, -2} {
			v := make([]float64, n)
			v[at] = odd
			for _, d := range []tensor.DType{tensor.F32, tensor.F64} {
				x := tensor.From(s, v).Cast(d)
				most, least := max(0, odd), min(0, odd)
				for name, c := range map[string]struct {
					y    *tensor.Tensor
					want float64
				}{"max": {x.Max(), most}, "min": {x.Min(), least}, "sum": {x.Sum(), odd}, "prod": {x.AddS(1).Prod(), odd + 1}} {
					if got, err := c.y.Item(); err != nil || got != c.want && !(got != got && c.want != c.want) {
						t.Errorf("%s of %v, %v at %d: %v, %v; expected %v", name, d, odd, at, got, err, c.want)
					}
				}
			}
		}
	}
}

// TestConvolutionInPieces wants convolutions whose window matrix is made in pieces to
// agree with the plain definition.
func TestConvolutionInPieces(t *testing.T) {
	run := func(s *tensor.Session) []*tensor.Tensor {
		ramp := func(n int, dims ...int) *tensor.Tensor {
			x := make([]float32, n)
			for i := range x {
				x[i] = float32(i*7%23)/23 - 0.4
			}
			return tensor.From(s, x, dims...)
		}
		x, w := ramp(2*4*50*51, 2, 4, 50, 51), ramp(6*2*9*8, 6, 2, 9, 8)
		var out []*tensor.Tensor
		for _, stride := range []int64{1, 2} {
			ints := []int64{stride, 1, 4, 3, 1, 2, 2}
			y := s.Apply(tensor.OpConv2D, ints, tensor.T(x), tensor.T(w))
			out = append(out, y,
				s.Apply(tensor.OpConv2DGradX, append(slices.Clone(ints), 50, 51), tensor.T(y), tensor.T(w)),
				s.Apply(tensor.OpConv2DGradW, append(slices.Clone(ints), 9, 8), tensor.T(x), tensor.T(y)))
		}
		return out
	}
	reference := tensor.NewSession(enginetest.Reference(), nil)
	defer reference.Close()
	got, want := run(session(t)), run(reference)
	for k := range got {
		g, err := tensor.Data[float32](got[k])
		if err != nil {
			t.Fatal(err)
		}
		w, err := tensor.Data[float32](want[k])
		if err != nil {
			t.Fatal(err)
		}
		most := 0.0
		for _, v := range w {
			most = max(most, math.Abs(float64(v)))
		}
		for i := range w {
			if math.Abs(float64(g[i]-w[i])) > 2e-5*most {
				t.Errorf("result %d element %d is %v, expected %v", k, i, g[i], w[i])
				break
			}
		}
	}
}

// TestTakenIDs wants a batch that is refused because an id is taken to leave the value
// that has it.
func TestTakenIDs(t *testing.T) {
	_, e := smallDevice(t)
	put(t, e, upload(t, e, 1, tensor.U8, 5, 64), upload(t, e, 100, tensor.U8, 7, 64))
	if _, err := submit(e, &tensor.Batch{Base: 1 << 40, Uploads: []tensor.Upload{upload(t, e, 2, tensor.U8, 1, 8), upload(t, e, 1, tensor.U8, 9, 64)}, Sync: true}); err == nil {
		t.Error("an upload under an id that exists was taken")
	}
	var b builder
	b.keep(b.op(tensor.OpAdd, tensor.U8, []int{64}, nil, b.in(tensor.U8, false, 64), b.scalar()))
	if _, err := submit(e, b.batch(t, 100, []float64{3}, 1)); !errors.Is(err, tensor.ErrProgram) {
		t.Errorf("a result under an id that exists gave %v, expected ErrProgram", err)
	}
	for id, want := range map[uint64]byte{1: 5, 2: 1, 100: 7} {
		if got := read(t, e, id)[0]; got != want {
			t.Errorf("value %d is %d, expected %d", id, got, want)
		}
	}
}
