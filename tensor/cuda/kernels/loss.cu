// Cross entropy of rows.
#include "tree.h"

// targets_count: count is how many of the targets are not -1, by one block.
template <class T> DEVICE void targets_count(const int *target, T *count, u32 rows, s64 *buffer) {
	s64 n = 0;
	for (u32 i = thread(); i < rows; i += ROW) n += target[i] >= 0;
	n = fold<Sum<s64>>(n, buffer);
	if (thread() == 0) *count = (T)n;
}

// cross_entropy: loss[r] is log(sum of e^x) - x[target[r]] of row r of x, and row r of
// grad its gradient times dy / count. Both are 0 where the target is -1. loss or grad may
// be null. Rows of x are stride elements apart.
template <class T> DEVICE void cross_entropy(const T *x, const int *target, const T *count, const T *dy, T *grad, T *loss,
	u32 columns, u64 stride, T *buffer) {
	const T *in = x + block() * stride;
	T *out = grad + (u64)block() * columns;
	int t = target[block()];
	if (t < 0) {
		if (grad) for (u32 i = thread(); i < columns; i += ROW) out[i] = 0;
		if (loss && thread() == 0) loss[block()] = 0;
		return;
	}
	T m = Max<T>::zero(), s = 0;
	for (u32 i = thread(); i < columns; i += ROW) m = Max<T>::of(m, in[i]);
	m = fold<Max<T>>(m, buffer);
	for (u32 i = thread(); i < columns; i += ROW) s += exponential(in[i] - m);
	s = fold<Sum<T>>(s, buffer);
	if (loss && thread() == 0) loss[block()] = logarithm(s) + m - in[t];
	if (!grad) return;
	T scale = *dy / *count;
	for (u32 i = thread(); i < columns; i += ROW) out[i] = (exponential(in[i] - m) / s - (i == t ? (T)1 : (T)0)) * scale;
}

// quotient: y is x / count.
#define LOSSES(D, T) \
	KERNEL THREADS(ROW) targets_count_##D(const int *target, T *count, u32 rows) { \
		SHARED s64 buffer[9]; \
		targets_count(target, count, rows, buffer); \
	} \
	KERNEL THREADS(ROW) cross_entropy_##D(const T *x, const int *target, const T *count, const T *dy, T *grad, T *loss, \
		u32 columns, u64 stride) { \
		SHARED T buffer[9]; \
		cross_entropy(x, target, count, dy, grad, loss, columns, stride, buffer); \
	} \
	KERNEL THREADS(ROW) quotient_##D(const T *x, const T *count, T *y) { \
		if (thread() == 0) *y = *x / *count; \
	}
LOSSES(f32, float)
LOSSES(f64, double)
