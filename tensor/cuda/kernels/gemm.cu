// A product of matrices, for machines without a library that has one.
#include "device.h"

#define TILE 64
#define DEPTH 16

// load fills a tile of 64 by 16, m of the matrix and k of the sum, transposed, with
// zeros outside of the matrix. The lanes of a warp go along the direction in which the
// matrix lies. Rows of the tile are one element apart in banks.
template <class T> DEVICE void load(T (*tile)[TILE + 1], const T *x, u32 m0, u32 k0, u32 m_end, u32 k_end, u64 m_stride, u64 k_stride) {
	u32 lane = thread() % 32, warp = thread() / 32;
	for (u32 n = 0; n < 4; n++) {
		u32 m = lane + 32 * (n & 1), k = warp + 8 * (n >> 1);
		if (k_stride == 1) m = warp + 16 * (lane / 16) + 8 * (n & 1) + 32 * (n >> 1), k = lane % 16;
		bool in = m0 + m < m_end && k0 + k < k_end;
		tile[k][m] = in ? x[(m0 + m) * m_stride + (k0 + k) * k_stride] : 0;
	}
}

DEVICE u32 madd(u32 x, u32 y, u32 sum) { return x * y + sum; }
DEVICE u64 madd(u64 x, u64 y, u64 sum) { return x * y + sum; }

template <class T> DEVICE void gemm(T (*left)[TILE + 1], T (*right)[TILE + 1], const T *a, const T *b, T *c, u32 m, u32 n, u32 k,
	u64 a_m, u64 a_k, u64 a_z, u64 b_k, u64 b_n, u64 b_z) {
	u32 m0 = block_y() * TILE, n0 = block() * TILE, row = thread() / 16, column = thread() % 16;
	a += block_z() * a_z;
	b += block_z() * b_z;
	T sum[4][4] = {};
	for (u32 k0 = 0; k0 < k; k0 += DEPTH) {
		load(left, a, m0, k0, m, k, a_m, a_k);
		load(right, b, n0, k0, n, k, b_n, b_k);
		barrier();
		for (u32 d = 0; d < DEPTH; d++) {
			T x[4], y[4];
			for (u32 i = 0; i < 4; i++) x[i] = left[d][row + 16 * i], y[i] = right[d][column + 16 * i];
			for (u32 i = 0; i < 4; i++) {
				for (u32 j = 0; j < 4; j++) sum[i][j] = madd(x[i], y[j], sum[i][j]);
			}
		}
		barrier();
	}
	c += (u64)block_z() * m * n;
	for (u32 i = 0; i < 4; i++) {
		for (u32 j = 0; j < 4; j++) {
			u32 r = m0 + row + 16 * i, s = n0 + column + 16 * j;
			if (r < m && s < n) c[(u64)r * n + s] = sum[i][j];
		}
	}
}

// small is gemm for few rows or columns: a thread makes an element.
template <class T> DEVICE void small(const T *a, const T *b, T *c, u32 m, u32 n, u32 k,
	u64 a_m, u64 a_k, u64 a_z, u64 b_k, u64 b_n, u64 b_z) {
	u32 at = block() * 256 + thread();
	if (at >= m * n) return;
	a += block_z() * a_z + at / n * a_m;
	b += block_z() * b_z + at % n * b_n;
	T sum = 0;
	for (u32 d = 0; d < k; d++) sum = madd(a[d * a_k], b[d * b_k], sum);
	c[(u64)block_z() * m * n + at] = sum;
}

#define GEMM const TYPE *a, const TYPE *b, TYPE *c, u32 m, u32 n, u32 k, u64 a_m, u64 a_k, u64 a_z, u64 b_k, u64 b_n, u64 b_z
#define THE_GEMM SHARED TYPE left[DEPTH][TILE + 1], right[DEPTH][TILE + 1]; \
	gemm(left, right, a, b, c, m, n, k, a_m, a_k, a_z, b_k, b_n, b_z);

// gemm_f32: c[z] = a[z] b[z], m by n over k, each element summed in the order of k. A
// stride is the distance of elements in a direction; c lies in rows. A block of 256
// threads makes 64 by 64 of c, a thread 4 by 4 of them; of gemm_small_f32 it makes 256
// elements. Both have the same bits.
#define TYPE float
KERNEL THREADS(256) gemm_f32(GEMM) { THE_GEMM }
KERNEL THREADS(256) gemm_small_f32(GEMM) { small(a, b, c, m, n, k, a_m, a_k, a_z, b_k, b_n, b_z); }
#undef TYPE

// The others are for f64, and for integers, which wrap.
#define TYPE double
KERNEL THREADS(256) gemm_f64(GEMM) { THE_GEMM }
KERNEL THREADS(256) gemm_small_f64(GEMM) { small(a, b, c, m, n, k, a_m, a_k, a_z, b_k, b_n, b_z); }
#undef TYPE
#define TYPE u32
KERNEL THREADS(256) gemm_i32(GEMM) { THE_GEMM }
KERNEL THREADS(256) gemm_small_i32(GEMM) { small(a, b, c, m, n, k, a_m, a_k, a_z, b_k, b_n, b_z); }
#undef TYPE
#define TYPE u64
KERNEL THREADS(256) gemm_i64(GEMM) { THE_GEMM }
KERNEL THREADS(256) gemm_small_i64(GEMM) { small(a, b, c, m, n, k, a_m, a_k, a_z, b_k, b_n, b_z); }
