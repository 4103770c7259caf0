package cudatest

import (
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/ringside-go/ringside/tensor/cuda/driver"
)

// threads returns the launch of a block.
func threads(n uint32) driver.Launch {
	return driver.Launch{Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{n, 1, 1}}
}

// block runs a body in one block. See kernel.
func block(t *testing.T, g *GPU, body string, n uint32) ([]uint32, []string, error) {
	t.Helper()
	in, out := g.Words(t, []uint32{1, 2, 3, 4}), g.Words(t, make([]uint32, 2*n))
	r, err := g.Try(t, g.Function(t, kernel(body), "k"), threads(n), new(driver.Args).Pointer(in).Pointer(out))
	if err != nil {
		return nil, r.Findings, err
	}
	return g.ReadWords(t, out, int(2*n)), r.Findings, nil
}

// TestWarp checks what lanes of a warp do together. Each case gives the wanted %x of a
// thread.
func TestWarp(t *testing.T) {
	for _, c := range []struct {
		name, body string
		want       func(i uint32) uint32
	}{
		{"butterfly", "shfl.sync.bfly.b32 %x, %t, 1, 31, -1;", func(i uint32) uint32 { return i ^ 1 }},
		{"down", "shfl.sync.down.b32 %x|%p, %t, 3, 31, -1;", func(i uint32) uint32 {
			if i%32+3 < 32 {
				return i + 3
			}
			return i
		}},
		{"up in parts of 8", "shfl.sync.up.b32 %x, %t, 2, 0x1800, -1;", func(i uint32) uint32 {
			if i%8 >= 2 {
				return i - 2
			}
			return i
		}},
		{"index", "shfl.sync.idx.b32 %x, %t, 5, 31, -1;", func(i uint32) uint32 { return i&^31 + 5 }},
		{"ballot", "and.b32 %y, %t, 1;\n setp.eq.u32 %p, %y, 0;\n vote.sync.ballot.b32 %x, %p, -1;", func(uint32) uint32 { return 0x55555555 }},
		{"all", "setp.lt.u32 %p, %t, 32;\n vote.sync.all.pred %q, %p, -1;\n selp.u32 %x, 1, 0, %q;", func(i uint32) uint32 { return 1 - i/32 }},
		{"sum", "redux.sync.add.u32 %x, %t, -1;", func(i uint32) uint32 { return 496 + i/32*1024 }},
		{"half a warp", "setp.lt.u32 %p, %t, 16;\n @!%p bra over;\n shfl.sync.bfly.b32 %x, %t, 1, 31, 0xffff;\nover:", func(i uint32) uint32 {
			if i < 16 {
				return i ^ 1
			}
			return 0
		}},
		{"loops of different lengths", "loop:\n add.u32 %x, %x, 2;\n setp.le.u32 %p, %x, %t;\n @%p bra loop;\n shfl.sync.bfly.b32 %x, %x, 0, 31, -1;",
			func(i uint32) uint32 { return i/2*2 + 2 }},
		{"barrier", `.shared .align 4 .b32 buf[64];
	mov.u32 %a, buf;
	shl.b32 %b, %t, 2;
	add.u32 %c, %a, %b;
	st.shared.u32 [%c], %t;
	bar.sync 0;
	xor.b32 %b, %b, 128;
	add.u32 %c, %a, %b;
	ld.shared.u32 %x, [%c];`, func(i uint32) uint32 { return i ^ 32 }},
		{"barrier that counts", "setp.lt.u32 %p, %t, 5;\n bar.red.popc.u32 %x, 0, %p;", func(uint32) uint32 { return 5 }},
		{"warp's barrier", `.shared .align 4 .b32 buf[64];
	mov.u32 %a, buf;
	shl.b32 %b, %t, 2;
	add.u32 %c, %a, %b;
	st.shared.u32 [%c], %t;
	bar.warp.sync -1;
	xor.b32 %b, %b, 4;
	add.u32 %c, %a, %b;
	ld.shared.u32 %x, [%c];
	bar.warp.sync -1;
	st.shared.u32 [%c], %x;`, func(i uint32) uint32 { return i ^ 1 }},
		{"atomics", `.shared .align 8 .b64 sum;
	setp.eq.u32 %p, %t, 0;
	@%p st.shared.u64 [sum], 0;
	bar.sync 0;
	cvt.u64.u32 %w, %t;
	red.shared.add.u64 [sum], %w;
	bar.sync 0;
	ld.shared.u32 %x, [sum];`, func(uint32) uint32 { return 2016 }},
		{"generic address", `.shared .align 4 .b32 word;
	mov.u64 %w, word;
	cvta.shared.u64 %w, %w;
	setp.eq.u32 %p, %t, 7;
	@%p st.u32 [%w], %t;
	bar.sync 0;
	ld.u32 %x, [%w];`, func(uint32) uint32 { return 7 }},
		{"asynchronous copy", `.shared .align 16 .b8 buf[16];
	mov.u32 %a, buf;
	setp.eq.u32 %p, %t, 0;
	@%p cp.async.cg.shared.global [%a], [%in], 16;
	cp.async.commit_group;
	cp.async.wait_group 0;
	bar.sync 0;
	ld.shared.u32 %x, [buf+8];`, func(uint32) uint32 { return 3 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, seed := range []uint64{0, 3} {
				out, findings, err := block(t, New(t, seed, os.Getenv), c.body, 64)
				if err != nil {
					t.Fatalf("seed %d: %v: %q", seed, err, findings)
				}
				for i := range uint32(64) {
					if out[2*i] != c.want(i) {
						t.Fatalf("seed %d: thread %d has %d, want %d", seed, i, out[2*i], c.want(i))
					}
				}
			}
		})
	}
}

// TestAtomics64 runs atomics of 64 bits on global memory, whose results don't depend on
// the order of threads.
func TestAtomics64(t *testing.T) {
	const low, high = 5, 7 // of the word before
	for _, c := range []struct {
		name, body     string // %wa is i<<32 + 1, of thread i
		wantLo, wantHi uint32
	}{
		{"add", "red.global.add.u64 [%w], %wa;", low + 32, high + 31*32/2},
		{"carry", "not.b64 %wb, %wa;\n add.u64 %wb, %wb, %wa;\n red.global.add.u64 [%w], %wb;", 0xffffffe5, high - 1},
		{"maximum", "atom.global.max.s64 %wb, [%w], %wa;", 1, 31},
		{"minimum", "neg.s64 %wa, %wa;\n atom.global.min.s64 %wb, [%w], %wa;", 0xffffffff, ^uint32(31)},
		{"or", "atom.global.or.b64 %wb, [%w], %wa;", low, 31},
		{"compare and swap, once", "ld.global.u64 %wb, [%in];\n atom.global.cas.b64 %wa, [%w], %wb, 9;", 9, 0},
		{"exchange", "setp.eq.u32 %p, %t, 3;\n @%p atom.global.exch.b64 %wb, [%w], %wa;", 1, 3},
		{"sum of doubles", "mov.f64 %e, 0d3FF0000000000000;\n red.global.add.f64 [%w], %e;", 0, 0x40400000},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, seed := range []uint64{0, 3} {
				g := New(t, seed, os.Getenv)
				begin := []uint32{low, high, 0, 0}
				if c.name == "sum of doubles" {
					begin[0], begin[1] = 0, 0
				}
				in, out := g.Words(t, begin), g.Words(t, append(make([]uint32, 64), begin...))
				body := "add.s64 %w, %out, 256;\n mov.u32 %a, 1;\n mov.b64 %wa, {%a, %t};\n " + c.body
				g.Run(t, g.Function(t, kernel(body), "k"), threads(32), new(driver.Args).Pointer(in).Pointer(out))
				if v := g.ReadWords(t, out+256, 2); v[0] != c.wantLo || v[1] != c.wantHi {
					t.Errorf("seed %d: %#x %#x, want %#x %#x", seed, v[0], v[1], c.wantLo, c.wantHi)
				}
			}
		})
	}
}

// TestOrders has all threads of 8 blocks of two warps draw a number each. Seed 0 gives
// the order of blocks, warps and lanes; another seed gives other orders of blocks and
// warps.
func TestOrders(t *testing.T) {
	const blocks, size = 8, 64
	drawn := map[uint64][]uint32{}
	for _, seed := range []uint64{0, 1, 1, 2} {
		g := New(t, seed, os.Getenv)
		in, out := g.Words(t, make([]uint32, 4)), g.Words(t, make([]uint32, 2*blocks*size+1))
		l := threads(size)
		l.Grid[0] = blocks
		body := "mov.u32 %a, %ctaid.x;\n mul.wide.u32 %w, %a, 512;\n add.s64 %at, %at, %w;\n atom.global.add.u32 %x, [%out+4096], 1;"
		g.Run(t, g.Function(t, kernel(body), "k"), l, new(driver.Args).Pointer(in).Pointer(out))
		var got []uint32
		for i, v := range g.ReadWords(t, out, 2*blocks*size) {
			if i%2 == 0 {
				got = append(got, v)
			}
		}
		if before := drawn[seed]; before != nil && !slices.Equal(before, got) {
			t.Errorf("seed %d gives two orders", seed)
		}
		drawn[seed] = got
	}
	for i, v := range drawn[0] {
		if int(v) != i {
			t.Fatalf("seed 0: thread %d has number %d", i, v)
		}
	}
	warps := 0 // whose order within their block is not that of their numbers
	for i := 0; i < len(drawn[1]); i += size {
		if drawn[1][i] > drawn[1][i+32] {
			warps++
		}
	}
	if warps == 0 || slices.Equal(drawn[1], drawn[2]) {
		t.Errorf("the order does not depend on the seed: %d and %d", drawn[1], drawn[2])
	}
}

// TestFindings checks that wrong kernels fail, with the right words.
func TestFindings(t *testing.T) {
	for _, c := range []struct{ name, body, want string }{
		{"race in shared memory", `.shared .align 4 .b32 buf[64];
	mov.u32 %a, buf;
	shl.b32 %b, %t, 2;
	add.u32 %c, %a, %b;
	st.shared.u32 [%c], %t;
	xor.b32 %b, %b, 128;
	add.u32 %c, %a, %b;
	ld.shared.u32 %x, [%c];`, "shared memory"},
		{"read, then written too soon", `.shared .align 4 .b32 buf[64];
	mov.u32 %a, buf;
	shl.b32 %b, %t, 2;
	add.u32 %c, %a, %b;
	st.shared.u32 [%c], %t;
	bar.sync 0;
	ld.shared.u32 %x, [buf];
	st.shared.u32 [%c], %x;`, "race in shared memory with a read"},
		{"all write a word", "st.global.u32 [%out], %t;", "race in global memory with a write"},
		{"shared memory that nothing wrote", ".shared .align 4 .b32 buf;\n ld.shared.u32 %x, [buf];", "shared memory that nothing wrote"},
		{"register that nothing wrote", "add.u32 %x, %x, 1;\n add.f32 %f, %f, %fa;", "register that nothing wrote"},
		{"missing wait", `.shared .align 16 .b8 buf[16];
	mov.u32 %a, buf;
	setp.eq.u32 %p, %t, 0;
	@%p cp.async.cg.shared.global [%a], [%in], 16;
	cp.async.commit_group;
	bar.sync 0;
	ld.shared.u32 %x, [buf+8];`, "shared memory that nothing wrote"},
		{"barrier of some", "setp.lt.u32 %p, %t, 5;\n @%p bra over;\n bar.sync 0;\nover:\n bar.sync 1;", "barrier diverges"},
		{"barriers of two warps", "setp.lt.u32 %p, %t, 32;\n @%p bra over;\n bar.sync 0;\n bra.uni end;\nover:\n bar.sync 1;\nend:", "barrier diverges"},
		{"shuffle of some", "setp.lt.u32 %p, %t, 5;\n @%p bra over;\n shfl.sync.bfly.b32 %x, %t, 1, 31, -1;\n bra.uni end;\nover:\n shfl.sync.bfly.b32 %x, %t, 2, 31, -1;\nend:", "diverges"},
		{"shuffle with lanes that exited", "setp.lt.u32 %p, %t, 5;\n @%p exit;\n shfl.sync.bfly.b32 %x, %t, 1, 31, -1;", "have exited"},
		{"address of nothing", "mov.u64 %w, 64;\n ld.global.u32 %x, [%w];", "read of 4 bytes"},
		{"past the end", "ld.global.u32 %x, [%in+16];", "read of 4 bytes"},
		{"past the end of shared memory", ".shared .align 4 .b32 buf;\n st.shared.u32 [buf+4], %t;", "write of 4 bytes"},
		{"not aligned", "ld.global.u32 %x, [%in+2];", "not aligned"},
		{"trap", "trap;", "trap"},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := New(t, 0, os.Getenv)
			_, findings, err := block(t, g, c.body, 64)
			if err == nil || !strings.Contains(strings.Join(findings, "\n"), c.want) {
				t.Fatalf("%v: %q, want %q", err, findings, c.want)
			}
			if _, again := g.Alloc(512); again == nil {
				t.Error("the context works after a kernel failed")
			}
		})
	}
}

// TestBlocksRace has each of two blocks write the same words, which nothing orders.
func TestBlocksRace(t *testing.T) {
	for _, seed := range []uint64{0, 3} {
		g := New(t, seed, os.Getenv)
		in, out := g.Words(t, make([]uint32, 4)), g.Words(t, make([]uint32, 64))
		l := threads(32)
		l.Grid[0] = 2
		r, err := g.Try(t, g.Function(t, kernel(""), "k"), l, new(driver.Args).Pointer(in).Pointer(out))
		if err == nil || !strings.Contains(strings.Join(r.Findings, "\n"), "race in global memory with a write") {
			t.Errorf("seed %d: %v: %q", seed, err, r.Findings)
		}
	}
}

// TestUnwritten reads global memory that the host, another kernel or nothing wrote.
func TestUnwritten(t *testing.T) {
	g := New(t, 0, os.Getenv)
	in, err := g.Alloc(64)
	check(t, err)
	check(t, g.CopyHtoD(in, make([]byte, 20)))
	out := g.Words(t, make([]uint32, 2))
	run := func(body string) ([]string, error) {
		r, err := g.Try(t, g.Function(t, kernel(body), "k"), threads(1), new(driver.Args).Pointer(in).Pointer(out))
		return r.Findings, err
	}
	for _, body := range []string{"ld.global.u32 %x, [%in+16];", "st.global.u32 [%in+20], %t;", "ld.global.u32 %x, [%in+20];"} {
		if findings, err := run(body); err != nil {
			t.Fatalf("%s: %v: %q", body, err, findings)
		}
	}
	findings, err := run("ld.global.u32 %x, [%in+24];")
	if err == nil || len(findings) != 1 || !strings.Contains(findings[0], "global memory that nothing wrote") {
		t.Errorf("%v: %q", err, findings)
	}
}

// TestMeasures compares sectors and bank conflicts with known ones.
func TestMeasures(t *testing.T) {
	for _, c := range []struct {
		name, body                 string
		sectors, fewest, conflicts uint64 // beyond those of kernel's own accesses
	}{
		{"words in a row", "shl.b32 %a, %t, 2;\n cvt.u64.u32 %w, %a;\n add.s64 %w, %w, %in;\n ld.global.u32 %b, [%w];", 4, 4, 0},
		{"every eighth word", "and.b32 %a, %t, 7;\n shl.b32 %a, %a, 5;\n cvt.u64.u32 %w, %a;\n add.s64 %w, %w, %in;\n ld.global.u32 %b, [%w];", 8, 1, 0},
		{"a word for all", "ld.global.u32 %b, [%in];", 1, 1, 0},
		{"banks", ".shared .align 4 .b32 buf[1024];\n mov.u32 %a, buf;\n shl.b32 %b, %t, 7;\n add.u32 %a, %a, %b;\n st.shared.u32 [%a], %t;", 0, 0, 31},
		{"no banks twice", ".shared .align 16 .b32 buf[128];\n mov.u32 %a, buf;\n shl.b32 %b, %t, 4;\n add.u32 %a, %a, %b;\n st.shared.v4.u32 [%a], {%t, %t, %t, %t};", 0, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := New(t, 0, os.Getenv)
			in, out := g.Words(t, make([]uint32, 64)), g.Words(t, make([]uint32, 64))
			r := g.Run(t, g.Function(t, kernel(c.body), "k"), threads(32), new(driver.Args).Pointer(in).Pointer(out))
			if s, f := r.Sectors-10, r.FewestSectors-10; s != c.sectors || f != c.fewest || r.Conflicts != c.conflicts {
				t.Errorf("%d sectors, at best %d, %d conflicts; want %d, %d, %d", s, f, r.Conflicts, c.sectors, c.fewest, c.conflicts)
			}
		})
	}
}

// TestMatrices multiplies matrices of small integers, which all formats hold exactly, by
// ldmatrix and mma.
func TestMatrices(t *testing.T) {
	half := func(v float32, bf16 bool) uint32 {
		b := math.Float32bits(v)
		if bf16 || v == 0 {
			return b >> 16
		}
		return b>>16&0x8000 | (b>>23&255-112)<<10 | b>>13&1023
	}
	a := func(i, k int) float32 { return float32((i*7+k*3)%11) - 5 }
	b := func(k, j int) float32 { return float32((k*5+j*2)%7) - 3 }
	for _, c := range []struct {
		name, mma string
		k         int
	}{
		{"bf16", "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", 16},
		{"f16", "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", 16},
		{"tf32", "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", 8},
	} {
		t.Run(c.name, func(t *testing.T) {
			// A is 16 rows, B 8 columns, of 32 bytes each: ldmatrix finds the parts of
			// both alike, whatever the type.
			words := make([]uint32, 24*8)
			set := func(row, k int, v float32) {
				if c.k == 8 {
					words[row*8+k] = math.Float32bits(v)
				} else {
					words[row*8+k/2] |= half(v, c.name == "bf16") << (k % 2 * 16)
				}
			}
			for k := range c.k {
				for i := range 16 {
					set(i, k, a(i, k))
				}
				for j := range 8 {
					set(16+j, k, b(k, j))
				}
			}
			ptx := header + `.visible .entry k(.param .u64 in, .param .u64 out)
{
	.reg .b32 %t, %s, %r<12>;
	.reg .f32 %f<4>;
	.reg .b64 %in, %out, %w;
	.shared .align 16 .b8 buf[768];
	ld.param.u64 %in, [in];
	ld.param.u64 %out, [out];
	mov.u32 %t, %tid.x;
	mul.lo.u32 %r0, %t, 24;
	cvt.u64.u32 %w, %r0;
	add.s64 %in, %in, %w;
	mov.u32 %s, buf;
	add.u32 %r0, %r0, %s;
	ld.global.v2.u32 {%r1, %r2}, [%in];
	st.shared.v2.u32 [%r0], {%r1, %r2};
	ld.global.v2.u32 {%r1, %r2}, [%in+8];
	st.shared.v2.u32 [%r0+8], {%r1, %r2};
	ld.global.v2.u32 {%r1, %r2}, [%in+16];
	st.shared.v2.u32 [%r0+16], {%r1, %r2};
	bar.sync 0;
	and.b32 %r0, %t, 15;
	shl.b32 %r0, %r0, 5;
	and.b32 %r1, %t, 16;
	add.u32 %r0, %r0, %r1;
	add.u32 %r0, %r0, %s;
	ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r4, %r5, %r6, %r7}, [%r0];
	and.b32 %r0, %t, 7;
	shl.b32 %r0, %r0, 5;
	and.b32 %r1, %t, 8;
	shl.b32 %r1, %r1, 1;
	add.u32 %r0, %r0, %r1;
	add.u32 %r0, %r0, %s;
	ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r8, %r9}, [%r0+512];
	mov.f32 %f0, 0f3F800000;
	mov.f32 %f1, 0f3F800000;
	mov.f32 %f2, 0f3F800000;
	mov.f32 %f3, 0f3F800000;
	` + c.mma + ` {%f0, %f1, %f2, %f3}, {%r4, %r5, %r6, %r7}, {%r8, %r9}, {%f0, %f1, %f2, %f3};
	mul.wide.u32 %w, %t, 8;
	add.s64 %out, %out, %w;
	st.global.v2.f32 [%out], {%f0, %f1};
	st.global.v2.f32 [%out+256], {%f2, %f3};
	ret;
}
`
			g := New(t, 0, os.Getenv)
			in, out := g.Words(t, words), g.Floats(t, make([]float32, 128))
			g.Run(t, g.Function(t, ptx, "k"), threads(32), new(driver.Args).Pointer(in).Pointer(out))
			for n, v := range g.ReadFloats(t, out, 128) {
				i, j, want := n/8, n%8, float32(1)
				for k := range c.k {
					want += a(i, k) * b(k, j)
				}
				if v != want {
					t.Fatalf("(%d, %d) is %g, want %g", i, j, v, want)
				}
			}
		})
	}
}

// TestDynamicShared checks the shared memory whose size a launch gives, up to its limit.
func TestDynamicShared(t *testing.T) {
	g := New(t, 0, os.Getenv)
	in, out := g.Words(t, []uint32{1, 2, 3, 4}), g.Words(t, make([]uint32, 128))
	k := g.Function(t, strings.Replace(kernel(`mov.u32 %a, buf;
	shl.b32 %b, %t, 2;
	add.u32 %c, %a, %b;
	st.shared.u32 [%c], %t;
	bar.sync 0;
	xor.b32 %b, %b, 128;
	add.u32 %c, %a, %b;
	ld.shared.u32 %x, [%c];`), ".visible", ".extern .shared .align 16 .b8 buf[];\n.visible", 1), "k")
	l, a := threads(64), new(driver.Args).Pointer(in).Pointer(out)
	if l.Shared = 1 << 20; g.Launch(k, l, a) == nil {
		t.Error("a block has a mebibyte of shared memory")
	}
	l.Shared = 256
	g.Run(t, k, l, a)
	for i, v := range g.ReadWords(t, out, 128) {
		if i%2 == 0 && int(v) != i/2^32 {
			t.Fatalf("thread %d has %d, want %d", i/2, v, i/2^32)
		}
	}
	l.Shared = 128
	if r, err := g.Try(t, k, l, a); err == nil || !strings.Contains(strings.Join(r.Findings, "\n"), "write of 4 bytes") {
		t.Errorf("past the end: %v: %q", err, r.Findings)
	}
}
