package cuda_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster"
	"github.com/ringside-go/ringside/tensor/cluster/client"
	"github.com/ringside-go/ringside/tensor/cuda"
	"github.com/ringside-go/ringside/tensor/cuda/blas"
	"github.com/ringside-go/ringside/tensor/cuda/driver"
	"github.com/ringside-go/ringside/tensor/cuda/fakecuda"
	"github.com/ringside-go/ringside/tensor/device"
)

// withLibrary returns a session on a device with the library of products.
func withLibrary(t *testing.T, seed uint64, o cuda.Options) (*tensor.Session, *cuda.Device) {
	t.Helper()
	api, library := standIns(t, seed)
	o.Products = library
	d := open(t, api, o)
	s := tensor.NewSession(device.NewOwner(d), nil)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, d
}

// multiplied are products that the library computes, and how many they are.
var multiplied = []struct {
	name  string
	count uint64
	f     func(o *operands) []*tensor.Tensor
}{
	{"rows", 1, func(o *operands) []*tensor.Tensor {
		return []*tensor.Tensor{o.of(tensor.F32, 70, 40).Matmul(o.of(tensor.F32, 40, 65))}
	}},
	{"transposed", 3, func(o *operands) []*tensor.Tensor {
		a, b := o.of(tensor.F32, 40, 70), o.of(tensor.F32, 65, 40)
		return []*tensor.Tensor{a.T().Matmul(b.T()), b.Matmul(a), a.T().Matmul(o.of(tensor.F32, 40, 3))}
	}},
	{"a row and a column", 3, func(o *operands) []*tensor.Tensor {
		row, column := o.of(tensor.F32, 1, 50), o.of(tensor.F32, 50, 1)
		return []*tensor.Tensor{row.Matmul(column), column.Matmul(row), row.Matmul(o.of(tensor.F32, 50, 9))}
	}},
	{"batches", 5, func(o *operands) []*tensor.Tensor {
		a := o.of(tensor.F32, 2, 3, 5, 4)
		return []*tensor.Tensor{
			a.Matmul(o.of(tensor.F32, 4, 6)), a.Matmul(o.of(tensor.F32, 3, 4, 6)), a.Matmul(o.of(tensor.F32, 2, 1, 4, 6)),
			a.Permute(1, 0, 2, 3).Matmul(o.of(tensor.F32, 3, 2, 4, 6)), a.Transpose(2, 3).Matmul(o.of(tensor.F32, 2, 3, 5, 7)),
		}
	}},
	{"views", 3, func(o *operands) []*tensor.Tensor {
		x := o.of(tensor.F32, 9, 40)
		return []*tensor.Tensor{
			x.Narrow(1, 1, 33).Matmul(o.of(tensor.F32, 33, 5)), x.Narrow(1, 3, 35).T().Matmul(x.Narrow(1, 2, 7)),
			o.of(tensor.F32, 6, 1).Expand(6, 8).Matmul(o.of(tensor.F32, 8, 4)),
		}
	}},
	{"f64", 1, func(o *operands) []*tensor.Tensor {
		return []*tensor.Tensor{o.of(tensor.F64, 17, 40).Matmul(o.of(tensor.F64, 40, 30))}
	}},
	{"halves", 4, func(o *operands) (out []*tensor.Tensor) {
		for _, d := range []tensor.DType{tensor.F16, tensor.BF16} {
			w := o.of(d, 3, 70)
			out = append(out, o.of(d, 5, 70).Cast(tensor.F32).Matmul(w.T().Cast(tensor.F32)), o.of(tensor.F32, 5, 3).Matmul(w.Cast(tensor.F32)))
		}
		return out
	}},
	{"attention", 2, func(o *operands) []*tensor.Tensor {
		return []*tensor.Tensor{tensor.Attention(o.of(tensor.F32, 1, 2, 6, 8), o.of(tensor.F32, 1, 1, 6, 8), o.of(tensor.F32, 1, 1, 6, 8), 0.25, true)}
	}},
}

// TestLibrary checks the products of a library, each computed by it, twice to the same
// bits and beside the cpu engine, launched and in graphs.
func TestLibrary(t *testing.T) {
	for _, k := range multiplied {
		t.Run(k.name, func(t *testing.T) {
			want := onCPU(t, k.f)
			s, d := withLibrary(t, 1, small)
			first := compute(t, s, k.f)
			if n := d.Counters().Products; n != k.count {
				t.Errorf("%d products by the library, expected %d", n, k.count)
			}
			for i := range first {
				compare(t, i, first[i], want[i])
			}
			for range 3 {
				for i, got := range compute(t, s, k.f) {
					if !slices.Equal(got, first[i]) {
						t.Errorf("result %d changed from run to run", i)
					}
				}
			}
			if c := d.Counters(); k.count > 1 && (c.Captures == 0 || c.Replays == 0) {
				t.Errorf("%d captures, %d replays of graphs, expected some", c.Captures, c.Replays)
			}
			// Another order of blocks, nodes and sums in place.
			s, _ = withLibrary(t, 4, small)
			for i, got := range compute(t, s, k.f) {
				if !slices.Equal(got, first[i]) {
					t.Errorf("result %d has other bits in another order", i)
				}
			}
			if c := d.Counters(); len(c.HostSteps) > 0 {
				t.Errorf("on the host ran %v", c.HostSteps)
			}
		})
	}
}

// TestLibraryNone checks that the kernels compute where there is no library, one that
// can't be opened, or none with an algorithm.
func TestLibraryNone(t *testing.T) {
	f := func(o *operands) []*tensor.Tensor {
		return []*tensor.Tensor{o.of(tensor.F32, 70, 40).Matmul(o.of(tensor.F32, 40, 65)), o.of(tensor.I32, 5, 4).Matmul(o.of(tensor.I32, 4, 5))}
	}
	want := onCPU(t, f)
	check := func(t *testing.T, s *tensor.Session, d *cuda.Device, has bool) {
		t.Helper()
		for i, got := range compute(t, s, f) {
			compare(t, i, got, want[i])
		}
		if _, is, err := d.Products(); is != has || !is && err == nil || strings.Contains(d.Info().Name, "cuBLASLt") != has || (d.Rounding() != "") != has {
			t.Errorf("a library: %v, %v, %q, %q; expected %v", is, err, d.Info().Name, d.Rounding(), has)
		}
		if n := d.Counters().Products; (n == 1) != has || n > 1 {
			t.Errorf("%d products by the library", n)
		}
	}
	t.Run("there is one", func(t *testing.T) {
		s, d := withLibrary(t, 1, small)
		check(t, s, d, true)
	})
	t.Run("it can't be opened", func(t *testing.T) {
		t.Setenv("FAKECUDA_FAIL", "cuCtxGetDevice:1=999")
		s, d := withLibrary(t, 1, small)
		check(t, s, d, false)
	})
}

// TestTF32 checks that operands are rounded where that is asked for, and only there.
func TestTF32(t *testing.T) {
	for _, tf32 := range []bool{false, true} {
		o := small
		o.TF32 = tf32
		s, d := withLibrary(t, 0, o)
		got, err := tensor.Data[float32](tensor.From(s, []float32{1 + 1.0/4096}, 1, 1).Matmul(tensor.From(s, []float32{1}, 1, 1)))
		if err != nil || (got[0] == 1) != tf32 || strings.Contains(d.Rounding(), "TF32") != tf32 {
			t.Errorf("TF32 %v: %v, %v, %q", tf32, got, err, d.Rounding())
		}
	}
}

// TestLibraryLeft checks that devices give back what they have of the library.
func TestLibraryLeft(t *testing.T) {
	counters := t.TempDir() + "/counters"
	t.Setenv("FAKECUDA_COUNTERS", counters)
	s, d := withLibrary(t, 0, small)
	compute(t, s, multiplied[0].f)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, has, _ := d.Products(); has {
		t.Error("a device that is closed has a library")
	}
	if c, err := fakecuda.ReadCounters(counters); err != nil || c.Allocations != 0 {
		t.Errorf("left: %+v, %v", c, err)
	}
}

// few is a library without algorithms.
type few struct{ blas.Handle }

func (few) Info() blas.Info              { return blas.Info{Name: "few"} }
func (f few) Open() (blas.Handle, error) { return f, nil }
func (few) Close() error                 { return nil }
func (few) Plan(blas.Product, int) (blas.Plan, error) {
	return nil, blas.ErrUnsupported
}
func (few) Run(blas.Plan, driver.DevicePtr, driver.DevicePtr, driver.DevicePtr, driver.DevicePtr, driver.Stream) error {
	panic("a product without a plan")
}

// TestLibraryFew checks that a library without an algorithm changes no bit.
func TestLibraryFew(t *testing.T) {
	for _, k := range multiplied {
		s, _ := session(t, 1, small)
		want := compute(t, s, k.f)
		o := small
		o.Products = few{}
		s, d := session(t, 1, o)
		for i, got := range compute(t, s, k.f) {
			if !slices.Equal(got, want[i]) {
				t.Errorf("%s: result %d has other bits", k.name, i)
			}
		}
		if n := d.Counters().Products; n != 0 {
			t.Errorf("%s: %d products by a library without algorithms", k.name, n)
		}
	}
}

// TestRounding has two workers whose products have other bits: a session of both is
// refused, and says why. Workers with the same library on two GPUs of one kind have one.
func TestRounding(t *testing.T) {
	for _, same := range []bool{true, false} {
		api, library := standIns(t, 0)
		made := 0
		o := inProcess(func() (device.Device, error) {
			o := small
			if made++; same || made == 1 {
				o.Products = library
			}
			return cuda.Open(api, made-1, &o)
		})
		o.Workers, o.Dir = 2, t.TempDir()
		c, err := cluster.Start(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		e, err := client.Dial(t.Context(), c.Addr(), &client.Options{Workers: 2})
		if err == nil {
			s := tensor.NewSession(e, nil)
			_, err = tensor.Data[float32](tensor.Full(s, tensor.F32, 1, 4, 4))
			_ = s.Close()
		}
		if same && err != nil || !same && (err == nil || !strings.Contains(err.Error(), "different bits") || !strings.Contains(err.Error(), "cuBLASLt 12.4.5 on sm_") ||
			!strings.Contains(err.Error(), "RINGSIDE_CUBLAS=off")) {
			t.Errorf("workers with the same library: %v; %v", same, err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}
