package shard

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/ringside-go/ringside/collective/element"
	"github.com/ringside-go/ringside/tensor"
)

// array is the content of a tensor: f for floats, n for all other types.
type array struct {
	dt tensor.DType
	sh tensor.Shape
	f  []float64
	n  []int64
}

func newArray(d tensor.DType, s tensor.Shape) *array {
	a := &array{dt: d, sh: s}
	if d.IsFloat() {
		a.f = make([]float64, s.Elems())
	} else {
		a.n = make([]int64, s.Elems())
	}
	return a
}

func (a *array) len() int { return len(a.f) + len(a.n) }

// bytes rounds the elements to the dtype and encodes them.
func (a *array) bytes() []byte {
	le, b := binary.LittleEndian, []byte{}
	for k := range a.len() {
		switch a.dt {
		case tensor.F32:
			b = le.AppendUint32(b, math.Float32bits(float32(a.f[k])))
		case tensor.F64:
			b = le.AppendUint64(b, math.Float64bits(a.f[k]))
		case tensor.F16:
			b = le.AppendUint16(b, uint16(element.ToFloat16(float32(a.f[k]))))
		case tensor.BF16:
			b = le.AppendUint16(b, uint16(element.ToBFloat16(float32(a.f[k]))))
		case tensor.I32:
			b = le.AppendUint32(b, uint32(a.n[k]))
		case tensor.I64:
			b = le.AppendUint64(b, uint64(a.n[k]))
		default:
			b = append(b, byte(a.n[k]))
		}
	}
	return b
}

func decode(d tensor.DType, s tensor.Shape, b []byte) *array {
	le, a := binary.LittleEndian, newArray(d, slices.Clone(s))
	for k := range a.len() {
		switch d {
		case tensor.F32:
			a.f[k] = float64(math.Float32frombits(le.Uint32(b[4*k:])))
		case tensor.F64:
			a.f[k] = math.Float64frombits(le.Uint64(b[8*k:]))
		case tensor.F16:
			a.f[k] = float64(element.Float16(le.Uint16(b[2*k:])).Float32())
		case tensor.BF16:
			a.f[k] = float64(element.BFloat16(le.Uint16(b[2*k:])).Float32())
		case tensor.I32:
			a.n[k] = int64(int32(le.Uint32(b[4*k:])))
		case tensor.I64:
			a.n[k] = int64(le.Uint64(b[8*k:]))
		default:
			a.n[k] = int64(b[k])
		}
	}
	return a
}

// rounded returns a with its elements rounded to the dtype.
func (a *array) rounded() *array { return decode(a.dt, a.sh, a.bytes()) }

// set copies element j of x to element k.
func (a *array) set(k int, x *array, j int) {
	if a.dt.IsFloat() {
		a.f[k] = x.f[j]
	} else {
		a.n[k] = x.n[j]
	}
}

// fold returns the elementwise fold of terms, rounded once.
func fold(op element.Reduction, scale float64, terms []*array) *array {
	out := newArray(terms[0].dt, terms[0].sh)
	for k := range out.f {
		x := terms[0].f[k]
		for _, t := range terms[1:] {
			switch y := t.f[k]; op {
			case element.Sum:
				x += y
			case element.Prod:
				x *= y
			case element.Max:
				x = max(x, y)
			case element.Min:
				x = min(x, y)
			}
		}
		out.f[k] = x * scale
	}
	for k := range out.n {
		x := terms[0].n[k]
		for _, t := range terms[1:] {
			switch y := t.n[k]; op {
			case element.Sum:
				x += y
			case element.Prod:
				x *= y
			case element.Max:
				x = max(x, y)
			case element.Min:
				x = min(x, y)
			}
		}
		out.n[k] = x
	}
	return out.rounded()
}

// each calls f for every position of a shape.
func each(s tensor.Shape, f func(k int, at []int)) {
	at := make([]int, len(s))
	for k := range s.Elems() {
		f(k, at)
		for d := len(s) - 1; d >= 0; d-- {
			if at[d]++; at[d] < s[d] {
				break
			}
			at[d] = 0
		}
	}
}

func flat(s tensor.Shape, at []int) int {
	k := 0
	for d, n := range s {
		k = k*n + at[d]
	}
	return k
}

// split returns each rank's part of x. The terms of a partial tensor are chosen so that
// their fold is x.
func split(m Mesh, l Layout, x *array) []*array {
	out := make([]*array, m.Size())
	for r := range out {
		start, sh := m.Local(l, x.sh, r)
		a := newArray(x.dt, sh)
		each(sh, func(k int, at []int) {
			whole := slices.Clone(at)
			for d := range whole {
				whole[d] += start[d]
			}
			j := flat(x.sh, whole)
			a.set(k, x, j)
			for d := range m {
				f, ok := l[d].Partial()
				if !ok {
					continue
				}
				mine := (j*7+j/3)%m[d].Size == m.Coord(r, d)
				a.term(k, f, mine, m[d].Size)
			}
		})
		out[r] = a.rounded()
	}
	return out
}

// term replaces element k by a rank's term of it.
func (a *array) term(k int, f Fold, mine bool, ranks int) {
	if a.dt.IsFloat() {
		switch x := a.f[k]; {
		case f == Mean && mine:
			a.f[k] = x * float64(ranks)
		case f == Sum && mine:
			a.f[k] = x - 3*float64(ranks-1)
		case mine:
		case f == Sum:
			a.f[k] = 3
		case f == Prod:
			a.f[k] = 1
		case f == Max:
			a.f[k] = x - 1
		case f == Min:
			a.f[k] = x + 1
		default:
			a.f[k] = 0
		}
		return
	}
	switch {
	case f == Sum && mine:
		a.n[k] -= 3 * int64(ranks-1)
	case f == Sum:
		a.n[k] = 3
	case mine, a.dt == tensor.U8 && f != Prod: // a further term may wrap
	case f == Prod:
		a.n[k] = 1
	case f == Max && a.dt == tensor.Bool:
		a.n[k] = 0
	case f == Min && a.dt == tensor.Bool:
		a.n[k] = 1
	case f == Max:
		a.n[k]--
	case f == Min:
		a.n[k]++
	}
}

// assemble is the inverse of split. It also returns the largest number in the ranks'
// parts.
func assemble(t *testing.T, m Mesh, p Placed, parts []*array) (*array, float64) {
	t.Helper()
	top := 0.0
	for r, a := range parts {
		if want := m.shape(p.Layout, p.Shape, r); !a.sh.Equal(want) || a.dt != p.DType {
			t.Fatalf("rank %d has %v%v of %v%v %v, expected %v", r, a.dt, a.sh, p.DType, p.Shape, p.Layout, want)
		}
		for _, x := range a.f {
			top = max(top, math.Abs(x))
		}
	}
	for k := len(m) - 1; k >= 0; k-- { // fold along one dim after the other
		f, ok := p.Layout[k].Partial()
		if !ok {
			continue
		}
		next := slices.Clone(parts)
		for r := range parts {
			var terms []*array
			for _, g := range m.Group(r, k) {
				terms = append(terms, parts[g])
			}
			scale := 1.0
			if f == Mean {
				scale = 1 / float64(m[k].Size)
			}
			next[r] = fold(f.op(), scale, terms)
		}
		parts = next
	}
	out, seen := newArray(p.DType, p.Shape), make([]bool, p.Shape.Elems())
	for r, a := range parts {
		start, sh := m.Local(p.Layout, p.Shape, r)
		each(sh, func(k int, at []int) {
			whole := slices.Clone(at)
			for d := range whole {
				whole[d] += start[d]
			}
			j := flat(p.Shape, whole)
			if seen[j] {
				was := newArray(p.DType, tensor.Shape{})
				was.set(0, out, j)
				now := newArray(p.DType, tensor.Shape{})
				now.set(0, a, k)
				if diff := differs(now, was, 0); diff != "" {
					t.Fatalf("replicas differ: rank %d at %v %s", r, whole, diff)
				}
			}
			seen[j] = true
			out.set(j, a, k)
		})
	}
	return out, top
}

// differs describes where a and b differ by more than tol, or returns "". Zeros of both
// signs are equal, and so are NaNs.
func differs(got, want *array, tol float64) string {
	if got.dt != want.dt || !got.sh.Equal(want.sh) {
		return fmt.Sprintf("is %v%v, expected %v%v", got.dt, got.sh, want.dt, want.sh)
	}
	for k, x := range want.f {
		if y := got.f[k]; y != x && !(x != x && y != y) && !(math.Abs(y-x) <= tol) {
			return fmt.Sprintf("at %d is %v, expected %v (within %g)", k, y, x, tol)
		}
	}
	for k, x := range want.n {
		if got.n[k] != x {
			return fmt.Sprintf("at %d is %d, expected %d", k, got.n[k], x)
		}
	}
	return ""
}
