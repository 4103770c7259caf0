// Sums of all elements before and with each.
#include "tree.h"

// cumsum_f32: y[r][i] is the sum of x[r][0] to x[r][i], in an order that depends on the
// length alone.
KERNEL THREADS(ROW) cumsum_f32(const float *x, float *y, u32 columns) {
	SHARED float sums[ROW / 32];
	const float *in = x + (u64)block() * columns;
	float *out = y + (u64)block() * columns;
	float before = 0;
	for (u32 first = 0; first < columns; first += ROW) {
		u32 i = first + thread();
		float v = i < columns ? in[i] : 0;
		for (u32 n = 1; n < 32; n *= 2) {
			float other = up(v, n);
			if (thread() % 32 >= n) v += other;
		}
		if (thread() % 32 == 31) sums[thread() / 32] = v;
		barrier();
		float warps = before;
		for (u32 w = 0; w < thread() / 32; w++) warps += sums[w];
		if (i < columns) out[i] = warps + v;
		for (u32 w = 0; w < ROW / 32; w++) before += sums[w];
		barrier();
	}
}
