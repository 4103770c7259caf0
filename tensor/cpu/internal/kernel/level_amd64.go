package kernel

import (
	"sync/atomic"

	"github.com/ringside-go/ringside/collective/isa"
)

// accelerateDoubles replaces the kernels of a portable table of float64 for which level
// l, which is supported and not Go, has assembly.
func accelerateDoubles(t *Table[float64], l Level) {
	if l >= AVX512 {
		accelerateF64AVX512(t)
	} else {
		accelerateF64AVX2(t)
	}
}

// accelerate replaces the kernels of a portable table for which level l, which is
// supported, has assembly. The others stay: portableOnly of level_test.go lists them.
// Where the kernel lets this process use no tiles, level AMX becomes AVX512.
func accelerate(t *Table[float32], l Level) {
	t.Level = l
	if l < AVX512 {
		accelerateAVX2(t)
		return
	}
	accelerateAVX512(t)
	if isa.BrainFloat() {
		t.Brain = brainBF16AVX512().products()
	}
	switch {
	case l != AMX:
	case isa.AskTiles():
		t.Brain.Tiles, t.Brain.TilesRounded = multiplyTiles, roundTiles
		t.Brain.TilesScratch, t.Brain.TilesPay = tilesScratch, tilesPay
	default:
		t.Level = AVX512
	}
}

// acceleratePlain replaces all kernels of a portable table by those of level l, which is
// supported and not Go.
func acceleratePlain(p *Plain, l Level) {
	if l >= AVX512 {
		setPlainAVX512(p)
	} else {
		setPlainAVX2(p)
	}
}

// accelerateProducts replaces the products of level Go by those of level l, which is
// supported and not Go.
func accelerateProducts(p *IntProducts, l Level) {
	if l >= AVX512 {
		p.I32, p.I64 = fewI32AVX512().or(integersBy[int32](gemmI32AVX512())), fewI64AVX512().or(integersBy[int64](gemmI64AVX512()))
		p.few = fewU8AVX512()
	} else {
		p.I32, p.I64 = fewI32AVX2().or(integersBy[int32](gemmI32AVX2())), fewI64AVX2().or(integersBy[int64](gemmI64AVX2()))
		p.few = fewU8AVX2()
	}
}

// accelerateFolds replaces the folds of level Go for which level l, which is supported
// and not Go, has assembly.
func accelerateFolds(f *Folds, l Level) {
	if l >= AVX512 {
		foldsAVX512(f)
	} else {
		foldsAVX2(f)
	}
}

// integersBy returns the product of integers that unit computes.
func integersBy[T Integer, F Float](unit *gemmUnit[F]) IntGemm[T] {
	return func(m, n, k int, a, b Matrix[T], accumulate bool, c []T, ldc int, scratch []T, stop *atomic.Bool) {
		of := func(x Matrix[T]) Matrix[F] { return Matrix[F]{floatsOf[F](x.Data), x.RS, x.CS} }
		unit.gemm(m, n, k, 1, of(a), of(b), accumulate, floatsOf[F](c), ldc, floatsOf[F](scratch), stop)
	}
}
