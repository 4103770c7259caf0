package cudatest

import (
	"encoding/binary"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/ringside-go/ringside/tensor/cuda/driver"
)

const header = ".version 7.5\n.target sm_80\n.address_size 64\n"

var one = driver.Launch{Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{1, 1, 1}}

// kernel returns PTX of a kernel k whose thread i has the words in[0] to in[3] in %a,
// %b, %c and %d, the same as floats in %fa to %fd, (b, a) and (d, c) as 64 bits in %wa
// and %wb and as doubles in %da and %db. Afterwards %x is out[2i] and %y is out[2i+1].
func kernel(body string) string {
	return header + `.visible .entry k(.param .u64 in, .param .u64 out)
{
	.reg .pred %p, %q;
	.reg .b16 %h, %g;
	.reg .b32 %a, %b, %c, %d, %x, %y, %t;
	.reg .f32 %fa, %fb, %fc, %fd, %f;
	.reg .b64 %wa, %wb, %w, %in, %out, %at;
	.reg .f64 %da, %db, %e;
	ld.param.u64 %in, [in];
	ld.param.u64 %out, [out];
	ld.global.v4.u32 {%a, %b, %c, %d}, [%in];
	ld.global.v4.f32 {%fa, %fb, %fc, %fd}, [%in];
	mov.b64 %wa, {%a, %b};
	mov.b64 %wb, {%c, %d};
	mov.b64 %da, %wa;
	mov.b64 %db, %wb;
	mov.u32 %x, 0;
	mov.u32 %y, 0;
	mov.u32 %t, %tid.x;
	mul.wide.u32 %at, %t, 8;
	add.s64 %at, %at, %out;
	` + body + `
	st.global.v2.u32 [%at], {%x, %y};
	ret;
}
`
}

func f(v float32) uint32 { return math.Float32bits(v) }

func two(v float64) (low, high uint32) {
	b := math.Float64bits(v)
	return uint32(b), uint32(b >> 32)
}

// TestInstructions runs one instruction at a time and compares bits.
func TestInstructions(t *testing.T) {
	g := New(t, 0, os.Getenv)
	inf := float32(math.Inf(1))
	nan := f(float32(math.NaN()))
	const canonical = 0x7fffffff
	minus := func(v int32) uint32 { return uint32(v) }
	a0, a1 := two(1.0 / 3)
	b0, b1 := two(3)
	q0, q1 := two(1.0 / 3 / 3)
	m0, m1 := two(math.FMA(1.0/3, 3, -1))
	n0, n1 := two(-1)
	s0, s1 := two(math.Sqrt(3))
	for _, c := range []struct {
		body string
		in   []uint32
		x, y uint32
	}{
		{"add.s32 %x, %a, %b;", []uint32{5, minus(-7)}, minus(-2), 0},
		{"add.sat.s32 %x, %a, %b;", []uint32{0x7fffffff, 1}, 0x7fffffff, 0},
		{"sub.sat.s32 %x, %a, %b;", []uint32{0x80000000, 1}, 0x80000000, 0},
		{"mul.hi.s32 %x, %a, %b;\n mul.hi.u32 %y, %a, %b;", []uint32{minus(-3), 5}, minus(-1), 4},
		{"mad.lo.u32 %x, %a, %b, %c;", []uint32{70000, 70000, 9}, 605032713, 0},
		{"mul.wide.s32 %w, %a, %b;\n mov.b64 {%x, %y}, %w;", []uint32{minus(-3), 5}, minus(-15), 0xffffffff},
		{"mad.wide.u32 %w, %a, %b, %wb;\n mov.b64 {%x, %y}, %w;", []uint32{1 << 31, 4, 7, 1}, 7, 3},
		{"mul.hi.u64 %w, %wa, %wb;\n mov.b64 {%x, %y}, %w;", []uint32{0, 0x80000000, 0, 6}, 0, 3},
		{"div.s32 %x, %a, %b;\n rem.s32 %y, %a, %b;", []uint32{minus(-7), 2}, minus(-3), minus(-1)},
		{"div.u32 %x, %a, %b;\n rem.u32 %y, %a, %b;", []uint32{minus(-7), 2}, 0x7ffffffc, 1},
		{"div.s32 %x, %a, %b;", []uint32{0x80000000, minus(-1)}, 0x80000000, 0},
		{"abs.s32 %x, %a;\n neg.s32 %y, %a;", []uint32{minus(-7)}, 7, 7},
		{"min.s32 %x, %a, %b;\n min.u32 %y, %a, %b;", []uint32{minus(-7), 2}, minus(-7), 2},
		{"popc.b32 %x, %a;\n clz.b32 %y, %a;", []uint32{0x00f00f00}, 8, 8},
		{"clz.b64 %x, %wa;\n popc.b64 %y, %wa;", []uint32{3, 0}, 62, 2},
		{"brev.b32 %x, %a;", []uint32{1}, 0x80000000, 0},
		{"bfe.u32 %x, %a, 4, 8;\n bfe.s32 %y, %a, 4, 8;", []uint32{0xf85}, 0xf8, minus(-8)},
		{"bfi.b32 %x, %a, %b, 8, 4;", []uint32{0xab, 0xffffffff}, 0xfffffbff, 0},
		{"prmt.b32 %x, %a, %b, 0x7530;", []uint32{0x44332211, 0x88776655}, 0x88664411, 0},
		{"lop3.b32 %x, %a, %b, %c, 0x96;", []uint32{12, 10, 6}, 12 ^ 10 ^ 6, 0},
		{"shl.b32 %x, %a, %b;\n shl.b32 %y, %a, 40;", []uint32{3, 31}, 0x80000000, 0},
		{"shr.s32 %x, %a, 1;\n shr.u32 %y, %a, 1;", []uint32{minus(-2)}, minus(-1), 0x7fffffff},
		{"shr.s32 %x, %a, 99;", []uint32{minus(-2)}, minus(-1), 0},
		{"shf.l.wrap.b32 %x, %a, %b, 8;\n shf.r.clamp.b32 %y, %a, %b, 32;", []uint32{0x11223344, 0x55667788}, 0x66778811, 0x55667788},
		{"not.b32 %x, %a;\n xor.b32 %y, %a, %b;", []uint32{5, 3}, ^uint32(5), 6},

		{"add.f32 %f, %fa, %fb;\n mov.b32 %x, %f;", []uint32{f(0.1), f(0.2)}, f(float32(0.1) + float32(0.2)), 0},
		{"add.rz.f32 %f, %fa, %fb;\n mov.b32 %x, %f;\n add.rp.f32 %f, %fa, %fb;\n mov.b32 %y, %f;", []uint32{f(1), f(0x1p-30)}, f(1), f(1) + 1},
		{"sub.rm.f32 %f, %fa, %fb;\n mov.b32 %x, %f;", []uint32{f(1), f(0x1p-30)}, f(1) - 1, 0},
		{"mul.ftz.f32 %f, %fa, %fb;\n mov.b32 %x, %f;\n mul.f32 %f, %fa, %fb;\n mov.b32 %y, %f;", []uint32{f(0x1p-100), f(0x1p-30)}, 0, f(0x1p-130)},
		{"add.sat.f32 %f, %fa, %fb;\n mov.b32 %x, %f;\n sub.sat.f32 %f, %fa, %fb;\n mov.b32 %y, %f;", []uint32{f(1), f(2)}, f(1), 0},
		{"add.sat.f32 %f, %fa, %fb;\n mov.b32 %x, %f;", []uint32{nan, f(2)}, 0, 0},
		{"fma.rn.f32 %f, %fa, %fb, %fc;\n mov.b32 %x, %f;", []uint32{f(1 + 0x1p-12), f(1 + 0x1p-12), f(-1 - 0x1p-11)}, f(0x1p-24), 0},
		{"mul.rn.f32 %f, %fa, %fb;\n add.rn.f32 %f, %f, %fc;\n mov.b32 %x, %f;", []uint32{f(1 + 0x1p-12), f(1 + 0x1p-12), f(-1 - 0x1p-11)}, 0, 0},
		{"max.f32 %f, %fa, %fb;\n mov.b32 %x, %f;\n max.NaN.f32 %f, %fa, %fb;\n mov.b32 %y, %f;", []uint32{nan, f(2)}, f(2), canonical},
		{"min.f32 %f, %fa, %fb;\n mov.b32 %x, %f;\n max.f32 %f, %fa, %fb;\n mov.b32 %y, %f;", []uint32{0, f(float32(math.Copysign(0, -1)))}, 0x80000000, 0},
		{"div.rn.f32 %f, %fa, %fb;\n mov.b32 %x, %f;\n rcp.rn.f32 %f, %fb;\n mov.b32 %y, %f;", []uint32{f(1), f(3)}, f(float32(1) / 3), f(float32(1) / 3)},
		{"sqrt.rn.f32 %f, %fa;\n mov.b32 %x, %f;\n rsqrt.approx.f32 %f, %fa;\n mov.b32 %y, %f;", []uint32{f(4)}, f(2), f(0.5)},
		{"sqrt.rn.f32 %f, %fa;\n mov.b32 %x, %f;", []uint32{f(-4)}, canonical, 0},
		{"ex2.approx.f32 %f, %fa;\n mov.b32 %x, %f;\n lg2.approx.f32 %f, %fa;\n mov.b32 %y, %f;", []uint32{f(4)}, f(16), f(2)},
		{"ex2.approx.ftz.f32 %f, %fa;\n mov.b32 %x, %f;", []uint32{f(-inf)}, 0, 0},
		{"neg.f32 %f, %fa;\n mov.b32 %x, %f;\n abs.f32 %f, %fa;\n mov.b32 %y, %f;", []uint32{f(-3)}, f(3), f(3)},
		{"copysign.f32 %f, %fa, %fb;\n mov.b32 %x, %f;", []uint32{f(-1), f(3)}, f(-3), 0},
		{"testp.infinite.f32 %p, %fa;\n selp.u32 %x, 1, 2, %p;\n testp.subnormal.f32 %p, %fb;\n selp.u32 %y, 1, 2, %p;", []uint32{f(inf), f(0x1p-140)}, 1, 1},

		{"div.rn.f64 %e, %da, %db;\n mov.b64 {%x, %y}, %e;", []uint32{a0, a1, b0, b1}, q0, q1},
		{"fma.rn.f64 %e, %da, %db, 0dBFF0000000000000;\n mov.b64 {%x, %y}, %e;", []uint32{a0, a1, b0, b1}, m0, m1},
		{"neg.f64 %e, %da;\n mov.b64 {%x, %y}, %e;", []uint32{0, 0x3ff00000}, n0, n1},
		{"sqrt.rn.f64 %e, %da;\n mov.b64 {%x, %y}, %e;", []uint32{b0, b1}, s0, s1},
		{"add.rn.f16x2 %x, %a, %b;", []uint32{0x3c004000, 0x3c003c00}, 0x40004200, 0},
		{"fma.rn.bf16x2 %x, %a, %b, %c;", []uint32{0x3f803f80, 0x40004000, 0x3f803f80}, 0x40404040, 0},
		{"max.NaN.bf16x2 %x, %a, %b;", []uint32{0x7fc03f80, 0x40004000}, 0x7fff4000, 0},

		{"setp.lt.s32 %p, %a, %b;\n selp.u32 %x, 1, 2, %p;\n setp.lo.u32 %p, %a, %b;\n selp.u32 %y, 1, 2, %p;", []uint32{minus(-1), 1}, 1, 2},
		{"setp.gt.f32 %p, %fa, %fb;\n selp.u32 %x, 1, 2, %p;\n setp.gtu.f32 %p, %fa, %fb;\n selp.u32 %y, 1, 2, %p;", []uint32{nan, f(1)}, 2, 1},
		{"setp.ne.f32 %p, %fa, %fa;\n selp.u32 %x, 1, 2, %p;\n setp.nan.f32 %p, %fa, %fb;\n selp.u32 %y, 1, 2, %p;", []uint32{nan, f(1)}, 2, 1},
		{"setp.eq.s32 %q, %a, %a;\n setp.lt.and.s32 %p|%q, %a, %b, !%q;\n selp.u32 %x, 1, 2, %p;\n selp.u32 %y, 1, 2, %q;", []uint32{1, 2}, 2, 2},
		{"setp.ge.f64 %p, %da, %db;\n selp.u32 %x, 1, 2, %p;", []uint32{b0, b1, a0, a1}, 1, 0},

		{"cvt.rn.f32.s32 %f, %a;\n mov.b32 %x, %f;", []uint32{minus(-16777217)}, f(-16777216), 0},
		{"cvt.rp.f32.u64 %f, %wa;\n mov.b32 %x, %f;", []uint32{1, 1}, f(0x1p32) + 1, 0},
		{"cvt.rzi.s32.f32 %x, %fa;\n cvt.rni.s32.f32 %y, %fa;", []uint32{f(-2.5)}, minus(-2), minus(-2)},
		{"cvt.rmi.s32.f32 %x, %fa;\n cvt.rpi.s32.f32 %y, %fa;", []uint32{f(-2.5)}, minus(-3), minus(-2)},
		{"cvt.rzi.s32.f32 %x, %fa;\n cvt.rzi.u32.f32 %y, %fb;", []uint32{f(3e9), f(-5)}, 0x7fffffff, 0},
		{"cvt.rzi.s32.f32 %x, %fa;\n cvt.rzi.s32.f32 %y, %fb;", []uint32{nan, f(-3e9)}, 0, 0x80000000},
		{"cvt.rni.f32.f32 %f, %fa;\n mov.b32 %x, %f;", []uint32{f(3.5)}, f(4), 0},
		{"cvt.s32.s8 %x, %a;\n cvt.u32.u8 %y, %a;", []uint32{0x1ff}, minus(-1), 255},
		{"cvt.sat.u8.s32 %x, %a;\n cvt.sat.s8.s32 %y, %b;", []uint32{minus(-5), 300}, 0, 127},
		{"cvt.s64.s32 %w, %a;\n mov.b64 {%x, %y}, %w;", []uint32{minus(-5)}, minus(-5), 0xffffffff},
		{"cvt.rn.bf16.f32 %h, %fa;\n mov.b32 %x, {%h, %h};", []uint32{f(1.00390625)}, 0x3f803f80, 0},
		{"cvt.rn.bf16x2.f32 %x, %fa, %fb;\n cvt.rn.f16x2.f32 %y, %fa, %fb;", []uint32{f(1), f(2)}, 0x3f804000, 0x3c004000},
		{"cvt.rn.f16.f32 %h, %fa;\n cvt.f32.f16 %f, %h;\n mov.b32 %x, %f;\n mov.b32 %y, {%h, %h};", []uint32{f(0x1p-24)}, f(0x1p-24), 0x00010001},
		{"cvt.rn.f16.f32 %h, %fa;\n mov.b32 %x, {%h, %h};\n cvt.rz.f16.f32 %h, %fa;\n mov.b32 %y, {%h, %h};", []uint32{f(1e6)}, 0x7c007c00, 0x7bff7bff},
		{"cvt.rna.tf32.f32 %x, %fa;", []uint32{f(1 + 0x1p-11)}, f(1 + 0x1p-10), 0},
		{"cvt.rn.f32.f64 %f, %da;\n mov.b32 %x, %f;", []uint32{a0, a1}, f(1.0 / 3), 0},
		{"cvt.f64.f32 %e, %fa;\n mov.b64 {%x, %y}, %e;", []uint32{f(3)}, b0, b1},
	} {
		in := append(append([]uint32{}, c.in...), make([]uint32, 4-len(c.in))...)
		pin, out := g.Words(t, in), g.Words(t, make([]uint32, 2))
		m, err := g.ModuleLoad(kernel(c.body))
		if err != nil {
			t.Errorf("%s: %v", c.body, err)
			continue
		}
		k, err := g.ModuleFunction(m, "k")
		check(t, err)
		g.Run(t, k, one, new(driver.Args).Pointer(pin).Pointer(out))
		if v := g.ReadWords(t, out, 2); v[0] != c.x || v[1] != c.y {
			t.Errorf("%s: %#x %#x, want %#x %#x", c.body, v[0], v[1], c.x, c.y)
		}
	}
}

// TestScopes checks registers of nested scopes, which have the same names, and functions.
func TestScopes(t *testing.T) {
	g := New(t, 0, os.Getenv)
	ptx := header + `
.global .align 4 .u32 table[3] = {7, 8, 9};
.func (.param .b32 result) twice(.param .b32 v)
{
	.reg .b32 %r<3>;
	ld.param.u32 %r1, [v];
	add.u32 %r2, %r1, %r1;
	st.param.b32 [result], %r2;
	ret;
}
.visible .entry k(.param .u64 out)
{
	.reg .b32 %r<4>;
	.reg .b64 %rd<4>;
	.reg .pred %p;
	.local .align 8 .b8 stack[16];
	mov.u32 %r1, 5;
	{
		.reg .b32 %r1, %t;
		mov.u32 %r1, 6;
		mov.u32 %t, %r1;
		mov.u32 %r2, %t;
		st.local.u32 [stack+4], %r1;
	}
	ld.local.u32 %r3, [stack+4];
	add.u32 %r1, %r1, %r3;
	{
		.param .b32 p;
		.param .b32 q;
		st.param.b32 [p], %r1;
		call.uni (q), twice, (p);
		ld.param.b32 %r1, [q];
	}
	mov.u64 %rd2, table;
	ld.global.u32 %r3, [%rd2+8];
	ld.param.u64 %rd1, [out];
	st.global.u32 [%rd1], %r1;
	st.global.u32 [%rd1+4], %r2;
	st.global.u32 [%rd1+8], %r3;
	setp.eq.u32 %p, %r1, 0;
	@%p bra away;
	ret;
away:
	trap;
}
`
	out := g.Words(t, make([]uint32, 3))
	g.Run(t, g.Function(t, ptx, "k"), one, new(driver.Args).Pointer(out))
	if v := g.ReadWords(t, out, 3); v[0] != 22 || v[1] != 6 || v[2] != 9 {
		t.Errorf("%d, want 22 6 9", v)
	}
	m, err := g.ModuleLoad(ptx)
	check(t, err)
	p, n, err := g.ModuleGlobal(m, "table")
	check(t, err)
	if v := g.ReadWords(t, p, 3); n != 12 || v[1] != 8 {
		t.Errorf("table has %d bytes: %d", n, v)
	}
	if _, err := g.ModuleFunction(m, "twice"); err == nil {
		t.Error("a function that is no kernel can be launched")
	}
	check(t, g.ModuleUnload(m))
}

// TestRefused checks that text which the assembler refuses is refused with its line.
func TestRefused(t *testing.T) {
	g := New(t, 0, os.Getenv)
	for _, body := range []string{
		"add.f32 %w, %fa, %fb;", "add.s32 %f, %a, %b;", "mul.u32 %x, %a, %b;", "fma.f32 %f, %fa, %fb, %fc;", "add.u64 %w, %a, %wb;",
		"mov.u32 %x, %none;", "ld.global.f32 %f, [%a];", "ld.global.u32 %x, [%in-4];", "st.global.v4.f64 [%in], {%e, %e, %e, %e};", "setp.lo.s32 %p, %a, %b;",
		"bra nowhere;", "add.s32 %x, %a, 0f3F800000;", "add.f32 %f, %fa, 1;", "shfl.bfly.b32 %x, %a, 1, 31;", "cvt.f32.s32 %f, %a;",
		"add.s32 %x, %a;", "add.s32 %x, %a, %b, %c;", "@%x add.s32 %x, %a, %b;", "selp.u32 %x, %a, %b, %c;", "tanh.approx.f64 %e, %da;",
		"mov.b64 %w, {%a, %b, %c, %d};", "bar.sync 16;", "call (%x), none, (%a);", "add.bf16 %h, %h, %g;", "{ .reg .b32 %z; } mov.u32 %z, 1;", ".shared .align 4 .b8 none[];",
	} {
		_, err := g.ModuleLoad(kernel(body))
		if err == nil || !strings.Contains(err.Error(), "line ") {
			t.Errorf("%s: %v", body, err)
		}
	}
	for _, text := range []string{"", "hello", ".version 7.5", header + ".visible .entry k(", header + ".entry k() { ret; } .entry k() { ret; }"} {
		if _, err := g.ModuleLoad(text); err == nil && text != "" && !strings.HasPrefix(text, ".version 7.5\n") {
			t.Errorf("%q is taken", text)
		}
	}
}

// TestApproximate checks that results differ by the seed, and stay within the bound that
// the manual of PTX gives for the instruction.
func TestApproximate(t *testing.T) {
	half := math.Exp2(-0.5)
	cases := []struct {
		body     string
		want     func(v float64) float64
		relative float64 // the larger of both bounds holds
		absolute float64
	}{
		{"ex2.approx.f32 %f, %fa;", math.Exp2, 0x1p-22, 0},
		{"lg2.approx.f32 %f, %fa;", math.Log2, 0x1p-22, 0x1p-22},
		{"rcp.approx.f32 %f, %fa;", func(v float64) float64 { return 1 / v }, 0x1p-23, 0},
		{"sqrt.approx.f32 %f, %fa;", math.Sqrt, 0x1p-23, 0},
		{"rsqrt.approx.f32 %f, %fa;", func(v float64) float64 { return 1 / math.Sqrt(v) }, math.Exp2(-22.9), 0},
		{"sin.approx.f32 %f, %fa;", math.Sin, 0, half * 0x1p-20},
		{"cos.approx.f32 %f, %fa;", math.Cos, 0, half * 0x1p-20},
		{"tanh.approx.f32 %f, %fa;", math.Tanh, 0x1p-11, 0},
		{"div.approx.f32 %f, 0f40400000, %fa;", func(v float64) float64 { return 3 / v }, 0x1p-22, 0},
		{"div.full.f32 %f, 0f40400000, %fa;", func(v float64) float64 { return 3 / v }, 0x1p-22, 0},
	}
	const values = 16
	results := map[uint64][][]float32{} // of each seed and instruction
	for _, seed := range []uint64{0, 1, 2} {
		g := New(t, seed, os.Getenv)
		in, out := g.Words(t, make([]uint32, 4)), g.Words(t, make([]uint32, 2))
		results[seed] = make([][]float32, len(cases))
		for n, c := range cases {
			k := g.Function(t, kernel(c.body+"\n mov.b32 %x, %f;"), "k")
			for i := range values {
				v := (1 + 3*float32(i)) / 8
				check(t, g.CopyHtoD(in, binary.LittleEndian.AppendUint32(nil, f(v))))
				g.Run(t, k, one, new(driver.Args).Pointer(in).Pointer(out))
				r := g.ReadFloats(t, out, 1)[0]
				results[seed][n] = append(results[seed][n], r)
				want := c.want(float64(v))
				if e, bound := math.Abs(float64(r)-want), max(c.absolute, c.relative*math.Abs(want)); e > bound {
					t.Errorf("seed %d, %s of %g: %g, %.3g from %g, at most %.3g", seed, c.body, v, r, e, want, bound)
				}
			}
		}
	}
	for n, c := range cases {
		if r := results; slices.Equal(r[0][n], r[1][n]) || slices.Equal(r[1][n], r[2][n]) {
			t.Errorf("the error of %s does not depend on the seed", c.body)
		}
	}
}
