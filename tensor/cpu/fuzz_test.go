package cpu_test

import (
	"context"
	"errors"
	"testing"

	"github.com/ringside-go/ringside/collective/testsize"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cpu"
	"github.com/ringside-go/ringside/tensor/device"
	"github.com/ringside-go/ringside/tensor/enginetest"
)

// recorder keeps programs instead of running them.
type recorder struct{ encoded [][]byte }

type memory []byte

func (m memory) Bytes() []byte { return m }
func (m memory) Release()      {}

func (r *recorder) Name() string                       { return "recorder" }
func (r *recorder) Alloc(n int) (tensor.Buffer, error) { return make(memory, n), nil }
func (r *recorder) Close() error                       { return nil }
func (r *recorder) Submit(_ context.Context, b *tensor.Batch) ([]tensor.Fetched, error) {
	if b.Program != nil {
		r.encoded = append(r.encoded, append([]byte(nil), b.Encoded...))
	}
	return nil, nil
}

// numbers is a small deterministic generator (splitmix64).
type numbers uint64

func (n *numbers) next() uint64 {
	*n += 0x9E3779B97F4A7C15
	z := uint64(*n)
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	return z ^ z>>31
}

func (n *numbers) below(m int) int { return int(n.next() % uint64(m)) }

// generated returns the encoding of a random program.
func generated(tb testing.TB, seed uint64) []byte {
	tb.Helper()
	r := &recorder{}
	s := tensor.NewSession(r, nil)
	enginetest.Generate(s, seed, 12)
	if err := s.Sync(); err != nil {
		tb.Fatal(err)
	}
	return r.encoded[len(r.encoded)-1]
}

// mutated changes a program at random places, mostly so that it stays one: another
// operation, other arguments of the same type, other attributes, results kept or not,
// inputs donated or not.
func mutated(t *testing.T, e []byte, n *numbers) []byte {
	t.Helper()
	p, err := tensor.ParseProgram(e)
	if err != nil || len(p.Instrs) == 0 {
		t.Fatalf("%d instructions, %v", len(p.Instrs), err)
	}
	ops := tensor.Ops()
	for range 1 + n.below(6) {
		i := n.below(len(p.Instrs))
		in := &p.Instrs[i]
		switch n.below(6) {
		case 0:
			op := ops[n.below(len(ops))]
			if a, b := op.Info(), in.Op.Info(); a.MaxTensors == b.MaxTensors && len(a.Scalars) == len(b.Scalars) {
				in.Op = op
			}
		case 1, 2:
			if in.NArg > 0 {
				k := in.Arg + uint32(n.below(int(in.NArg)))
				if r := anyRef(p, i, n); sameType(p, r, p.Args[k]) {
					p.Args[k] = r
				}
			}
		case 3:
			if in.NInt > 0 {
				p.Ints[in.Int+uint32(n.below(int(in.NInt)))] += int64(n.below(5) - 2)
			}
		case 4:
			in.Keep = !in.Keep
		case 5:
			if len(p.Externals) > 0 {
				x := &p.Externals[n.below(len(p.Externals))]
				x.Donated = !x.Donated
			}
		}
	}
	return p.Append(nil)
}

// anyRef returns a value that instruction i may use.
func anyRef(p *tensor.Program, i int, n *numbers) tensor.Ref {
	switch k := n.below(3); {
	case k == 0 && len(p.Externals) > 0:
		return tensor.ExternalRef(n.below(len(p.Externals)))
	case k == 1 && p.NumScalars > 0:
		return tensor.ScalarRef(n.below(p.NumScalars))
	case i > 0:
		return tensor.Ref(n.below(i))
	}
	return p.Args[0]
}

func sameType(p *tensor.Program, a, b tensor.Ref) bool {
	da, sa := p.TypeOf(a)
	db, sb := p.TypeOf(b)
	return da == db && sa.Equal(sb) || da == tensor.Invalid
}

// runs runs e on inputs of wild values if ParseProgram accepts it, and reports whether it
// did.
func runs(t *testing.T, d *cpu.Device, e []byte, n *numbers) bool {
	t.Helper()
	p, err := tensor.ParseProgram(e)
	if err != nil {
		return false
	}
	for _, s := range p.Shapes {
		if s.Elems() > 1<<12 {
			return false // right, but too slow to try many
		}
	}
	eng := device.NewEngine(d)
	defer eng.Close()
	b := &tensor.Batch{Program: p, Encoded: e, Hash: tensor.HashOf(e), Base: 1000, Sync: true}
	for i, x := range p.Externals {
		shape := p.Shapes[x.Shape]
		u := tensor.Upload{ID: uint64(i + 1), DType: x.DType, Shape: shape}
		if size := shape.Elems() * x.DType.Size(); size > 0 {
			buf, err := eng.Alloc(size)
			if err != nil {
				t.Fatal(err)
			}
			for k := range buf.Bytes() {
				buf.Bytes()[k] = byte(n.below(2))
				if x.DType.IsFloat() && n.below(3) == 0 {
					buf.Bytes()[k] = byte(n.next())
				}
			}
			u.Buf = buf
		}
		b.Uploads = append(b.Uploads, u)
		b.Inputs = append(b.Inputs, u.ID)
		for j := range i { // now and then an earlier one again
			if y := b.Uploads[j]; n.below(4) == 0 && y.DType == u.DType && y.Shape.Equal(shape) {
				b.Inputs[i] = y.ID
			}
		}
	}
	for range p.NumScalars {
		b.Scalars = append(b.Scalars, []float64{0, 1, -1, 0.5, 3, 1e300, -1e300}[n.below(7)])
	}
	_, err = submit(eng, b)
	if errors.Is(err, cpu.ErrInternal) {
		t.Errorf("%v\n%v", p, err)
	}
	return true
}

func fuzzDevice(tb testing.TB) *cpu.Device {
	tb.Helper()
	d, err := cpu.New(&cpu.Options{MaxBytes: 64 << 20, Plans: 4})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { d.Close() })
	return d
}

// TestMutatedPrograms wants every program that ParseProgram accepts to run or to fail,
// and never to panic.
func TestMutatedPrograms(t *testing.T) {
	d := fuzzDevice(t)
	const first, each = 1, 150
	programs := uint64(60)
	if testsize.Sampled() {
		programs = 10
	}
	run, all := 0, 0
	for seed := uint64(first); seed < first+programs; seed++ {
		e := generated(t, seed)
		n := numbers(seed)
		if !runs(t, d, e, &n) {
			continue
		}
		for range each {
			all++
			if runs(t, d, mutated(t, e, &n), &n) {
				run++
			}
		}
		if t.Failed() {
			t.Fatalf("the programs of seed %d", seed)
		}
	}
	t.Logf("%d of %d mutants were programs", run, all)
	if run < all/20 {
		t.Errorf("only %d of %d mutants were programs: they test nothing", run, all)
	}
}

func FuzzProgram(f *testing.F) {
	for seed := range uint64(8) {
		f.Add(generated(f, seed+1), seed)
	}
	d := fuzzDevice(f)
	f.Fuzz(func(t *testing.T, e []byte, seed uint64) {
		n := numbers(seed)
		runs(t, d, e, &n)
	})
}
