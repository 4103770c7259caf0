package enginetest

import (
	"fmt"
	"math"
	"testing"

	"github.com/ringside-go/ringside/tensor"
)

// values tests the results of special values: NaN, infinities, zeros and subnormals in
// floats; the ends of the range in integers.
func (s *suite) values(t *testing.T) {
	t.Run("NaN and infinities", s.nanTable)
	t.Run("special floats", s.specialFloats)
	t.Run("integers", s.integers)
	t.Run("casts", s.casts)
	t.Run("nothing", s.emptyReductions)
}

var (
	nan = math.NaN()
	inf = math.Inf(1)
)

// nanTable is the op table's text about NaN in numbers.
func (s *suite) nanTable(t *testing.T) {
	sess := s.session(t)
	for _, d := range []tensor.DType{tensor.F32, tensor.F64} {
		for _, wide := range []int{1, 37} { // alone, and in the middle of vectors
			x := []float64{nan, 1, -1, inf, -inf, 0}
			y := []float64{2, nan, -2, 5, nan, 0}
			repeat := func(v []float64) *tensor.Tensor {
				a := newArray(d, tensor.Shape{wide, len(v)})
				for k := range a.f {
					a.f[k] = v[k%len(v)]
				}
				return put(sess, a)
			}
			a, b := repeat(x), repeat(y)
			for _, c := range []struct {
				what string
				got  *tensor.Tensor
				want []float64
			}{
				{"max", a.Maximum(b), []float64{nan, nan, -1, inf, nan, 0}},
				{"max of swapped", b.Maximum(a), []float64{nan, nan, -1, inf, nan, 0}},
				{"min", a.Minimum(b), []float64{nan, nan, -2, 5, nan, 0}},
				{"max with a number", a.MaximumS(0.5), []float64{nan, 1, 0.5, inf, 0.5, 0.5}},
				{"min with a number", a.MinimumS(0.5), []float64{nan, 0.5, -1, 0.5, -inf, 0}},
				{"relu", a.ReLU(), []float64{nan, 1, 0, inf, 0, 0}},
				{"clamp", a.Clamp(-0.5, 2), []float64{nan, 1, -0.5, 2, -0.5, 0}},
				{"clamp from below", a.Clamp(-0.5, inf), []float64{nan, 1, -0.5, inf, -0.5, 0}},
				{"eq", a.Eq(b), []float64{0, 0, 0, 0, 0, 1}},
				{"ne", a.Ne(b), []float64{1, 1, 1, 1, 1, 0}},
				{"lt", a.Lt(b), []float64{0, 0, 0, 0, 0, 0}},
				{"le", a.Le(b), []float64{0, 0, 0, 0, 0, 1}},
				{"gt", a.Gt(b), []float64{0, 0, 1, 1, 0, 0}},
				{"ge", a.Ge(b), []float64{0, 0, 1, 1, 0, 1}},
				{"where", tensor.Where(a.Eq(a), a, b), []float64{2, 1, -1, inf, -inf, 0}},
				{"masked fill", a.MaskedFill(a.Ne(a), 9), []float64{9, 1, -1, inf, -inf, 0}},
				{"relu_grad", sess.Apply(tensor.OpReluGrad, nil, tensor.T(a), tensor.T(b)), []float64{2, nan, 0, 5, 0, 0}},
				{"sign", a.Sign(), []float64{nan, 1, -1, 1, -1, 0}},
				{"abs", a.Abs(), []float64{nan, 1, 1, inf, inf, 0}},
				{"sqrt", a.Sqrt(), []float64{nan, 1, nan, inf, nan, 0}},
				{"log", a.Log(), []float64{nan, 0, nan, inf, nan, -inf}},
				{"exp", a.Exp(), []float64{nan, math.E, 1 / math.E, inf, 0, 1}},
				{"1/x", a.Reciprocal(), []float64{nan, 1, -1, 0, 0, inf}},
				{"x/0", a.Div(a.MulS(0).MaskedFill(a.Ne(a), 0).MaskedFill(a.Abs().EqS(inf), 0).Abs()), []float64{nan, inf, -inf, inf, -inf, nan}},
				{"sigmoid", a.Sigmoid(), []float64{nan, 0.7310585786, 0.2689414214, 1, 0, 0.5}},
				{"tanh", a.Tanh(), []float64{nan, 0.761594156, -0.761594156, 1, -1, 0}},
				{"as bool", a.Cast(tensor.Bool), []float64{1, 1, 1, 1, 1, 0}},
				{"as i32", a.Cast(tensor.I32), []float64{0, 1, -1, math.MaxInt32, math.MinInt32, 0}},
				{"as u8", a.Cast(tensor.U8), []float64{0, 1, 0, 255, 0, 0}},
			} {
				got := mustRead(t, c.got)
				for k := range got.len() {
					g, w := got.at(k), c.want[k%len(c.want)]
					if g != w && !(g != g && w != w) && !(math.Abs(g-w) < 1e-6) {
						t.Errorf("%s of %v: of x = %v, y = %v it is %v, expected %v (element %d)", c.what, d, x[k%len(x)], y[k%len(y)], g, w, k)
						break
					}
				}
			}
			for _, c := range []struct {
				what string
				got  *tensor.Tensor
				want float64
			}{
				{"sum", a.Sum(), nan}, {"amax", a.Max(), nan}, {"amin", a.Min(), nan}, {"mean", a.Mean(), nan},
				{"amax without NaN", a.MaskedFill(a.Ne(a), 0).Max(), inf}, {"amin without NaN", a.MaskedFill(a.Ne(a), 0).Min(), -inf},
				{"sum of one infinity", a.MaskedFill(a.Ne(a), 0).Maximum(put(sess, floats(tensor.Shape{}, -5)).Cast(d)).Sum(), inf},
			} {
				want(t, fmt.Sprintf("%s of %v", c.what, d), c.got, 0, c.want)
			}
		}
		masked := put(sess, &array{dt: d, sh: tensor.Shape{2, 3}, f: []float64{0, -inf, 0, -inf, -inf, 3}})
		want(t, "softmax with masked columns", masked.Softmax(-1), 1e-7, 0.5, 0, 0.5, 0, 0, 1)
		want(t, "causal softmax of large scores", put(sess, &array{dt: d, sh: tensor.Shape{2, 2}, f: []float64{1e4, -1e4, 2e4, 2e4}}).CausalSoftmax(1), 1e-7, 1, 0, 0.5, 0.5)
	}
}

// specialFloats compares every elementwise operation on special numbers with the
// reference, contiguous and strided.
func (s *suite) specialFloats(t *testing.T) {
	odd := []float64{nan, inf, -inf, 0, math.Copysign(0, -1), 1, -1, 0.5, -0.5, 2.5, -2.5, 1e-40, -1e-40, 1e-30, 1e30, -1e30, 88, -88, 104, -104, 1e6, 3}
	for _, op := range tensor.Ops() {
		info := op.Info()
		n := info.MinTensors
		if info.Class != tensor.ClassElementwise || len(info.Scalars) > 0 || n > 2 || info.Ints != "" || info.Kind == tensor.KindLogic {
			continue
		}
		var vals []float64
		for _, x := range odd {
			if (math.IsInf(x, 0) || math.Abs(x) > 1e4) && limitless(op) || op == tensor.OpPow && math.Abs(x) > 1e4 {
				continue
			}
			vals = append(vals, x)
		}
		for _, dt := range []tensor.DType{tensor.F32, tensor.F64} {
			k := len(vals)
			a, b := newArray(dt, tensor.Shape{k, k}), newArray(dt, tensor.Shape{k, k})
			each(a.sh, func(i int, idx []int) { a.f[i], b.f[i] = vals[idx[0]], vals[idx[1]] })
			a.settle()
			b.settle()
			p := recorded(t, func(s *tensor.Session) []*tensor.Tensor {
				args := []tensor.Arg{tensor.T(put(s, a)), tensor.T(put(s, b))}[:n]
				turned := []tensor.Arg{tensor.T(put(s, a).T()), tensor.T(put(s, b))}[:n]
				return []*tensor.Tensor{s.Apply(op, nil, args...), s.Apply(op, nil, turned...)}
			}).flags(every, false)
			d := s.driver(t)
			d.checkEach(p, d.results(p))
		}
	}
}

// limitless lists operations that are x times a factor that vanishes: their result for
// large x depends on the formula.
func limitless(op tensor.Op) bool {
	switch op {
	case tensor.OpGelu, tensor.OpGeluTanh, tensor.OpSilu, tensor.OpSin, tensor.OpCos:
		return true
	}
	return op.Info().Kind == tensor.KindGradient && op != tensor.OpReluGrad
}

func (s *suite) integers(t *testing.T) {
	sess := s.session(t)
	i32 := put(sess, integers(tensor.I32, math.MaxInt32, math.MinInt32, -7, 7))
	want(t, "i32 + 1 wraps", i32.AddS(1), 0, math.MinInt32, math.MinInt32+1, -6, 8)
	want(t, "-i32", i32.Neg(), 0, -math.MaxInt32, math.MinInt32, 7, -7)
	want(t, "|i32|", i32.Abs(), 0, math.MaxInt32, math.MinInt32, 7, 7)
	want(t, "sign", i32.Sign(), 0, 1, -1, -1, 1)
	want(t, "i32 squared wraps", i32.Square(), 0, 1, 0, 49, 49)
	want(t, "integers are divided as floats", i32.Slice(tensor.To(2, 4)).DivS(2), 0, -3.5, 3.5)
	want(t, "i32 + 0.5 is a float", i32.Slice(tensor.To(2, 4)).AddS(0.5), 0, -6.5, 7.5)
	want(t, "clamp", i32.Clamp(-5, 6), 0, 6, -5, -5, 6)
	u8 := put(sess, integers(tensor.U8, 0, 1, 200, 255))
	want(t, "u8 + 100 wraps", u8.AddS(100), 0, 100, 101, 44, 99)
	want(t, "u8 - u8 wraps", u8.Sub(u8.Flip(0)), 0, 1, 57, 199, 255)
	want(t, "-u8", u8.Neg(), 0, 0, 255, 56, 1)
	want(t, "u8 sums as i64", u8.Sum(), 0, 456)
	want(t, "u8 product as i64", u8.Slice(tensor.To(1, 4)).Prod(), 0, 51000)
	want(t, "u8 compares unsigned", u8.GtS(1), 0, 0, 0, 1, 1)
	want(t, "u8 mean is a float", u8.Mean(), 0, 114)
	want(t, "u8 * -1 is a float", u8.MulS(-1), 0, 0, -1, -200, -255)
	want(t, "u8 + 256 is a float", u8.AddS(256), 0, 256, 257, 456, 511)
	want(t, "no u8 is -1", u8.EqS(-1), 0, 0, 0, 0, 0)
	want(t, "all u8 are above -1", u8.GtS(-1), 0, 1, 1, 1, 1)
	want(t, "all u8 are below 256", u8.LtS(256), 0, 1, 1, 1, 1)
	want(t, "all i32 are below 2^31", i32.LtS(1<<31), 0, 1, 1, 1, 1)
	want(t, "an i32 and an infinity", i32.GtS(-inf), 0, 1, 1, 1, 1)
	i64 := put(sess, integers(tensor.I64, 2, 3, -1, 0, 1))
	want(t, "pow", i64.Pow(put(sess, integers(tensor.I64, 10, -1, -3, -1, -9))), 0, 1024, 0, -1, 0, 1)
	want(t, "0^0", i64.PowS(0), 0, 1, 1, 1, 1, 1)
	want(t, "u8 cumsum as i64", u8.Cumsum(0), 0, 0, 1, 201, 456)
	want(t, "i32 cumsum as i64", i32.Slice(tensor.To(0, 1)).Expand(3).Cumsum(0), 0, math.MaxInt32, 2*math.MaxInt32, 3*math.MaxInt32)
	want(t, "integer cumsum", i64.Cumsum(0), 0, 2, 5, 4, 4, 5)
	want(t, "division by zero of floats", i64.Div(i64.MulS(0)), 0, inf, inf, -inf, nan, inf)
	far := put(sess, integers(tensor.I64, 1<<53+1, -1<<62, 1<<62))
	if got := mustRead(t, far.Sub(put(sess, integers(tensor.I64, 1<<53, 0, 1)))); got.i[0] != 1 || got.i[1] != -1<<62 || got.i[2] != 1<<62-1 {
		t.Errorf("i64 beyond 2^53 gave %v", got.i)
	}
	if got := mustRead(t, far.Max()); got.i[0] != 1<<62 {
		t.Errorf("the largest i64 is %d", got.i[0])
	}
	want(t, "a mean of i64 does not wrap", put(sess, integers(tensor.I64, math.MaxInt64, math.MaxInt64, math.MaxInt64)).Mean(), 0, 1<<63)
	if got := mustRead(t, far.Reshape(3, 1).Matmul(put(sess, integers(tensor.I64, 3)).Reshape(1, 1))); got.i[0] != 3<<53+3 {
		t.Errorf("a product of i64 gave %d, expected %d", got.i[0], 3<<53+3)
	}
	b := put(sess, integers(tensor.Bool, 1, 0, 1, 1))
	want(t, "bools sum as i64", b.Sum(), 0, 3)
	want(t, "bools cumsum as i64", b.Cumsum(0), 0, 1, 1, 2, 3)
	want(t, "bools are averaged as f32", b.Mean(), 0, 0.75)
	want(t, "no bool is 2", b.EqS(2), 0, 0, 0, 0, 0)
	want(t, "a bool is 1", b.EqS(1), 0, 1, 0, 1, 1)
	want(t, "any", b.Any(), 0, 1)
	want(t, "all", b.All(), 0, 0)
	want(t, "argmax takes the first", put(sess, integers(tensor.I32, 1, 9, 9, 2)).Argmax(0), 0, 1)
	want(t, "argmin takes the first", put(sess, integers(tensor.I32, 4, 1, 9, 1)).Argmin(-1), 0, 1)
}

// casts goes from every dtype to every other.
func (s *suite) casts(t *testing.T) {
	from := map[tensor.DType]*array{
		tensor.F32:  floats(tensor.Shape{14}, nan, inf, -inf, 0, -0.9, 0.9, 1.5, -1.5, 255.9, 256, 3e9, -3e9, 1e20, -1e20),
		tensor.F64:  {dt: tensor.F64, sh: tensor.Shape{11}, f: []float64{nan, inf, -inf, 0.1, 1e300, -1e300, 2147483647.9, -2147483648.9, 9.3e18, 1 + 0x1p-30, -0.5}},
		tensor.F16:  {dt: tensor.F16, sh: tensor.Shape{10}, f: []float64{nan, inf, -inf, 0, -0.900390625, 65504, -65504, 0x1p-24, 255.875, 1.5}},
		tensor.BF16: {dt: tensor.BF16, sh: tensor.Shape{10}, f: []float64{nan, inf, -inf, 0, -0.8984375, 0x1.fep127, 0x1p-133, 3e9, 255, 1.5}},
		tensor.I32:  integers(tensor.I32, 0, 1, -1, 255, 256, 1<<24+1, math.MaxInt32, math.MinInt32),
		tensor.I64:  integers(tensor.I64, 0, 1, -1, 255, 256, 1<<24+1, 1<<53+1, 1<<31, -1<<31-1, math.MaxInt64, math.MinInt64, 1<<60+1<<36+1),
		tensor.U8:   integers(tensor.U8, 0, 1, 127, 128, 255),
		tensor.Bool: integers(tensor.Bool, 0, 1),
	}
	d := s.driver(t)
	for _, a := range tensor.DTypes() {
		p := recorded(t, func(s *tensor.Session) []*tensor.Tensor {
			var out []*tensor.Tensor
			for _, b := range tensor.DTypes() {
				out = append(out, s.Apply(tensor.OpCast, []int64{int64(b)}, tensor.T(put(s, from[a]))))
			}
			return out
		}).flags(every, false)
		d.checkEach(p, d.results(p))
	}
}

func (s *suite) emptyReductions(t *testing.T) {
	sess := s.session(t)
	x := tensor.Zeros(sess, tensor.F32, 0, 3)
	want(t, "sum of nothing", x.Sum(), 0, 0)
	want(t, "sums of nothing", x.Sum(0), 0, 0, 0, 0)
	want(t, "sum over what is there", x.Sum(1), 0)
	want(t, "mean of nothing", x.Mean(0), 0, nan, nan, nan)
	want(t, "product of nothing", x.Prod(0), 0, 1, 1, 1)
	want(t, "any of nothing", x.EqS(0).Any(), 0, 0)
	want(t, "all of nothing", x.EqS(0).All(), 0, 1)
	want(t, "a product over an inner dim of 0", tensor.Ones(sess, tensor.F32, 2, 0).Matmul(x), 0, 0, 0, 0, 0, 0, 0)
	want(t, "what is joined with nothing", tensor.Concat(0, x, tensor.Ones(sess, tensor.F32, 1, 3)), 0, 1, 1, 1)
	if err := x.Max(0).Err(); err == nil {
		t.Error("the largest of nothing is no error")
	}
}
