// Sums of all elements before and with each.
#include "tree.h"

// running: y[r][i] is the sum of x[r][0] to x[r][i], in an order that depends on the
// length alone.
template <class T> DEVICE void running(const T *x, T *y, u32 columns, T *sums) {
	const T *in = x + (u64)block() * columns;
	T *out = y + (u64)block() * columns;
	T before = 0;
	for (u32 first = 0; first < columns; first += ROW) {
		u32 i = first + thread();
		T v = i < columns ? in[i] : 0;
		for (u32 n = 1; n < 32; n *= 2) {
			T other = up(v, n);
			if (thread() % 32 >= n) v += other;
		}
		if (thread() % 32 == 31) sums[thread() / 32] = v;
		barrier();
		T warps = before;
		for (u32 w = 0; w < thread() / 32; w++) warps += sums[w];
		if (i < columns) out[i] = warps + v;
		for (u32 w = 0; w < ROW / 32; w++) before += sums[w];
		barrier();
	}
}

#define SCAN(T) \
	SHARED T sums[ROW / 32]; \
	running<T>(x, y, columns, sums);

KERNEL THREADS(ROW) cumsum_f32(const float *x, float *y, u32 columns) { SCAN(float) }
KERNEL THREADS(ROW) cumsum_f64(const double *x, double *y, u32 columns) { SCAN(double) }
KERNEL THREADS(ROW) cumsum_i64(const s64 *x, s64 *y, u32 columns) { SCAN(s64) }
