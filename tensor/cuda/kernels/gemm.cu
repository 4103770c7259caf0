// A product of matrices, for machines without a library that has one.
#include "device.h"

#define TILE 64
#define DEPTH 16

// load fills a tile of 64 by 16, m of the matrix and k of the sum, transposed, with
// zeros outside of the matrix. The lanes of a warp go along the direction in which the
// matrix lies. Rows of the tile are one element apart in banks.
DEVICE void load(float (*tile)[TILE + 1], const float *x, u32 m0, u32 k0, u32 m_end, u32 k_end, u64 m_stride, u64 k_stride) {
	u32 lane = thread() % 32, warp = thread() / 32;
	for (u32 n = 0; n < 4; n++) {
		u32 m = lane + 32 * (n & 1), k = warp + 8 * (n >> 1);
		if (k_stride == 1) m = warp + 16 * (lane / 16) + 8 * (n & 1) + 32 * (n >> 1), k = lane % 16;
		bool in = m0 + m < m_end && k0 + k < k_end;
		tile[k][m] = in ? x[(m0 + m) * m_stride + (k0 + k) * k_stride] : 0;
	}
}

// gemm_f32: c[z] = a[z] b[z], m by n over k, each element summed in the order of k. A
// stride is the distance of elements in a direction; c lies in rows. A block of 256
// threads makes 64 by 64 of c, a thread 4 by 4 of them.
KERNEL THREADS(256) gemm_f32(const float *a, const float *b, float *c, u32 m, u32 n, u32 k, u64 a_m, u64 a_k, u64 a_z,
	u64 b_k, u64 b_n, u64 b_z) {
	SHARED float left[DEPTH][TILE + 1], right[DEPTH][TILE + 1];
	u32 m0 = block_y() * TILE, n0 = block() * TILE, row = thread() / 16, column = thread() % 16;
	a += block_z() * a_z;
	b += block_z() * b_z;
	float sum[4][4] = {};
	for (u32 k0 = 0; k0 < k; k0 += DEPTH) {
		load(left, a, m0, k0, m, k, a_m, a_k);
		load(right, b, n0, k0, n, k, b_n, b_k);
		barrier();
		for (u32 d = 0; d < DEPTH; d++) {
			float x[4], y[4];
			for (u32 i = 0; i < 4; i++) x[i] = left[d][row + 16 * i], y[i] = right[d][column + 16 * i];
			for (u32 i = 0; i < 4; i++) {
				for (u32 j = 0; j < 4; j++) sum[i][j] = __builtin_fmaf(x[i], y[j], sum[i][j]);
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
