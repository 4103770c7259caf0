package drivertest

import (
	"bytes"
	"encoding/binary"
	"math"
	"strings"
	"testing"

	"github.com/ringside-go/ringside/tensor/cuda/driver"
)

// program is y[i] = a*x[i] + y[i], and a variable.
const program = `.version 7.5
.target sm_80
.address_size 64
.visible .global .align 4 .u32 answer = 42;
.visible .entry axpy(.param .u64 px, .param .u64 py, .param .f32 pa, .param .u32 pn)
{
	.reg .pred %p;
	.reg .f32 %f<4>;
	.reg .b32 %r<6>;
	.reg .b64 %d<6>;
	ld.param.u64 %d1, [px];
	ld.param.u64 %d2, [py];
	ld.param.f32 %f1, [pa];
	ld.param.u32 %r1, [pn];
	mov.u32 %r2, %ctaid.x;
	mov.u32 %r3, %ntid.x;
	mov.u32 %r4, %tid.x;
	mad.lo.s32 %r5, %r2, %r3, %r4;
	setp.ge.u32 %p, %r5, %r1;
	@%p bra done;
	mul.wide.u32 %d3, %r5, 4;
	add.s64 %d4, %d1, %d3;
	add.s64 %d5, %d2, %d3;
	ld.global.f32 %f2, [%d4];
	ld.global.f32 %f3, [%d5];
	fma.rn.f32 %f3, %f1, %f2, %f3;
	st.global.f32 [%d5], %f3;
done:
	ret;
}
`

// axpy launches the program's kernel over n elements.
func (e *env) axpy(f driver.Function, s driver.Stream, x, y driver.DevicePtr, a float32, n uint32) error {
	l := driver.Launch{Grid: [3]uint32{(n + 127) / 128, 1, 1}, Block: [3]uint32{128, 1, 1}, Stream: s}
	return e.Launch(f, l, new(driver.Args).Pointer(x).Pointer(y).Float32(a).Uint32(n))
}

// floats returns the bytes of n values, each next above the one before.
func floats(n int, first float32) []byte {
	var b []byte
	for i := range n {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(first+float32(i)))
	}
	return b
}

// kernels compiles text, runs what it holds, and misuses it.
func (e *env) kernels(t *testing.T) {
	const n = 1000
	m := must(e.ModuleLoad(program))(t)
	f := must(e.ModuleFunction(m, "axpy"))(t)
	x, y := must(e.Alloc(4*n))(t), must(e.Alloc(4*n))(t)
	check(t, e.CopyHtoD(x, floats(n, 1)))
	check(t, e.CopyHtoD(y, floats(n, 10)))
	check(t, e.axpy(f, 0, x, y, 2, n))
	back := make([]byte, 4*n)
	check(t, e.CopyDtoH(back, y))
	for i := range n {
		if got, want := math.Float32frombits(binary.LittleEndian.Uint32(back[4*i:])), float32(3*i+12); got != want {
			t.Fatalf("element %d is %g, want %g", i, got, want)
		}
	}

	// Memory of the host that the device has an address of: a kernel writes there, and
	// the host reads it after the wait.
	b := must(e.HostAlloc(4*n, driver.HostDeviceMap))(t)
	copy(b, floats(n, 10))
	check(t, e.axpy(f, 0, x, must(e.HostDevicePointer(b))(t), 2, n))
	check(t, e.Synchronize())
	if !bytes.Equal(b, back) {
		t.Error("a kernel writes other bytes to memory of the host than to the device's")
	}
	check(t, e.HostFree(b))

	p, size, err := e.ModuleGlobal(m, "answer")
	check(t, err)
	if size != 4 {
		t.Errorf("a variable of %d bytes, want 4", size)
	}
	check(t, e.CopyDtoH(back[:4], p))
	if v := binary.LittleEndian.Uint32(back); v != 42 {
		t.Errorf("the variable is %d, want 42", v)
	}
	if v := must(e.FunctionAttribute(f, driver.FunctionMaxThreads))(t); v < 128 {
		t.Errorf("at most %d threads", v)
	}
	check(t, e.SetFunctionAttribute(f, driver.FunctionMaxDynamicShared, 64<<10))
	if v := must(e.FunctionBlocks(f, 128, 64<<10))(t); v < 1 {
		t.Errorf("%d blocks fit a multiprocessor", v)
	}

	_, err = e.ModuleLoad(strings.Replace(program, "fma.rn.f32", "fma.rn.f64", 1))
	if code(err) != driver.InvalidPTX || !strings.Contains(err.Error(), "line") {
		t.Errorf("wrong types: %v, want %v with the compiler's log", err, driver.InvalidPTX)
	}
	launch := func(threads, shared uint32) func(driver.API) error {
		return func(a driver.API) error {
			l := driver.Launch{Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{threads, 1, 1}, Shared: shared}
			return a.Launch(f, l, new(driver.Args).Pointer(x).Pointer(y).Float32(1).Uint32(0))
		}
	}
	misuse(t, e, []row{
		{"ModuleLoad of no program", func(a driver.API) error { return fails(a.ModuleLoad(".version 7.5")) }, driver.InvalidPTX},
		{"ModuleFunction of none", func(a driver.API) error { return fails(a.ModuleFunction(m, "axpby")) }, driver.NotFound},
		{"ModuleGlobal of none", func(a driver.API) error { _, _, err := a.ModuleGlobal(m, "question"); return err }, driver.NotFound},
		{"Launch of no threads", launch(0, 0), driver.InvalidValue},
		{"Launch of too many threads", launch(2048, 0), driver.InvalidValue},
		{"Launch with more shared memory than was asked for", launch(32, 65<<10), driver.InvalidValue},
		{"SetFunctionAttribute of a constant", func(a driver.API) error { return a.SetFunctionAttribute(f, driver.FunctionRegisters, 1) }, driver.InvalidValue},
	})
	for _, err := range []error{e.ModuleUnload(m), e.Free(x), e.Free(y)} {
		check(t, err)
	}
}
