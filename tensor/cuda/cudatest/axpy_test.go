package cudatest

import (
	"os"
	"testing"

	"github.com/ringside-go/ringside/tensor/cuda/driver"
)

const axpy = `
.version 7.5
.target sm_80
.address_size 64
.visible .entry axpy(.param .u64 x, .param .u64 y, .param .f32 a, .param .u32 n)
{
	.reg .pred %p<3>;
	.reg .f32 %f<5>;
	.reg .b32 %r<8>;
	.reg .b64 %rd<8>;
	mov.u32 %r1, %ctaid.x;
	mov.u32 %r2, %ntid.x;
	mov.u32 %r3, %tid.x;
	mad.lo.s32 %r4, %r1, %r2, %r3;
	ld.param.u32 %r5, [n];
	setp.ge.u32 %p1, %r4, %r5;
	@%p1 bra $done;
	ld.param.u64 %rd1, [x];
	ld.param.u64 %rd2, [y];
	ld.param.f32 %f1, [a];
	cvta.to.global.u64 %rd3, %rd1;
	cvta.to.global.u64 %rd4, %rd2;
	mul.wide.u32 %rd5, %r4, 4;
	add.s64 %rd3, %rd3, %rd5;
	add.s64 %rd4, %rd4, %rd5;
	ld.global.f32 %f2, [%rd3];
	ld.global.f32 %f3, [%rd4];
	fma.rn.f32 %f4, %f1, %f2, %f3;
	st.global.f32 [%rd4], %f4;
$done:
	ret;
}
`

func TestAxpy(t *testing.T) {
	for _, seed := range []uint64{0, 1, 2} {
		g := New(t, seed, os.Getenv)
		const n = 1000
		x, y := make([]float32, n), make([]float32, n)
		for i := range n {
			x[i], y[i] = float32(i), float32(2*i)
		}
		px, py := g.Floats(t, x), g.Floats(t, y)
		r := g.Run(t, g.Function(t, axpy, "axpy"), driver.Launch{Grid: [3]uint32{8, 1, 1}, Block: [3]uint32{128, 1, 1}},
			new(driver.Args).Pointer(px).Pointer(py).Float32(3).Uint32(n))
		for i, v := range g.ReadFloats(t, py, n) {
			if v != float32(5*i) {
				t.Fatalf("seed %d: element %d is %g, want %d", seed, i, v, 5*i)
			}
		}
		if r.Sectors != r.FewestSectors || r.GlobalBytes != 3*4*n {
			t.Errorf("seed %d: %+v", seed, r)
		}
	}
}
