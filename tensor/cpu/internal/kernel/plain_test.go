package kernel

import (
	"math"
	"math/rand/v2"
	"reflect"
	"testing"
)

// TestPlain compares every kernel of Plain on every level that has assembly with that in
// Go: all lengths, at any place of a cache line, in place and not. Nothing is written
// beyond the length.
func TestPlain(t *testing.T) {
	seed := rand.Uint64()
	t.Log("seed", seed)
	for _, l := range Levels()[1:] {
		if l == NEON {
			continue
		}
		r := rand.New(rand.NewPCG(seed, uint64(l)))
		tried := comparePlain(t, l.String(), reflect.ValueOf(*PlainOf(l)), reflect.ValueOf(*portablePlain()), r)
		if tried != 3*19+2*4+4+18 {
			t.Errorf("%v: %d kernels tried", l, tried)
		}
	}
}

// comparePlain compares all functions of k and of the structs in it, and returns how many
// there are.
func comparePlain(t *testing.T, name string, k, want reflect.Value, r *rand.Rand) (tried int) {
	t.Helper()
	for i := range k.NumField() {
		field := name + "." + k.Type().Field(i).Name
		f, g := k.Field(i), want.Field(i)
		if f.Kind() == reflect.Struct {
			tried += comparePlain(t, field, f, g, r)
			continue
		}
		if f.IsNil() || g.IsNil() || f.Pointer() == g.Pointer() {
			t.Errorf("%s has no assembly", field)
			continue
		}
		tried++
		for _, n := range lengths() {
			comparePlainCall(t, field, f, g, n, r)
		}
	}
	return tried
}

// comparePlainCall compares one call with n numbers.
func comparePlainCall(t *testing.T, name string, f, g reflect.Value, n int, r *rand.Rand) {
	t.Helper()
	var args, same []reflect.Value
	for i := range f.Type().NumIn() {
		if f.Type().In(i).Kind() != reflect.Slice {
			s := plainNumber(f.Type().In(i), r)
			args, same = append(args, s), append(same, s)
			continue
		}
		x := reflect.MakeSlice(f.Type().In(i), n+9, n+9)
		for j := range n + 9 {
			x.Index(j).Set(plainNumber(f.Type().In(i).Elem(), r))
		}
		at := r.IntN(8)
		copied := reflect.MakeSlice(x.Type(), n+9, n+9)
		reflect.Copy(copied, x)
		args, same = append(args, x.Slice(at, n+9)), append(same, copied.Slice(at, n+9))
	}
	if f.Type().In(0) == f.Type().In(1) && r.IntN(2) == 0 {
		args[0], same[0] = args[1], same[1]
	}
	call := func(f reflect.Value, args []reflect.Value) {
		cut := make([]reflect.Value, len(args))
		for i, a := range args {
			if cut[i] = a; a.Kind() == reflect.Slice {
				cut[i] = a.Slice(0, n)
			}
		}
		f.Call(cut)
	}
	call(f, args)
	call(g, same)
	for i := range args[0].Len() {
		if a, b := args[0].Index(i), same[0].Index(i); !a.Equal(b) && !(a.CanFloat() && math.IsNaN(a.Float()) && math.IsNaN(b.Float())) {
			t.Fatalf("%s of %d numbers: %v at %d, expected %v", name, n, a, i, b)
		}
	}
}

// plainNumber returns a number of type t: any, one that is often equal to another, or one
// of the ends of the range.
func plainNumber(t reflect.Type, r *rand.Rand) reflect.Value {
	v := reflect.New(t).Elem()
	switch {
	case v.CanFloat():
		special := []float64{0, math.Copysign(0, -1), math.NaN(), math.Inf(1), math.Inf(-1), 255, 255.5, 256, -0.5, 0.99, 0x1p-140, 1 << 31, -(1 << 40)}
		v.SetFloat(r.NormFloat64() * 200)
		if r.IntN(3) == 0 {
			v.SetFloat(special[r.IntN(len(special))])
		}
	case v.CanUint():
		v.SetUint(r.Uint64() & (1<<t.Bits() - 1))
		if r.IntN(3) == 0 {
			v.SetUint([]uint64{0, 1, 1 << (t.Bits() - 1), 1<<t.Bits() - 1}[r.IntN(4)])
		}
	default:
		x := int64(r.Uint64())
		switch r.IntN(4) {
		case 0:
			x = r.Int64N(5) - 2
		case 1:
			x = []int64{math.MinInt64, math.MaxInt64, math.MinInt32, math.MaxInt32, 1 << 32, 256}[r.IntN(6)]
		}
		v.SetInt(x << (64 - t.Bits()) >> (64 - t.Bits()))
		if t.Bits() == 64 && r.IntN(4) == 0 {
			v.SetInt(x >> 30)
		}
	}
	return v
}
