// Cross entropy of rows.
#include "tree.h"

// targets_count: count is how many of the targets are not -1, by one block.
KERNEL THREADS(ROW) targets_count(const int *target, float *count, u32 rows) {
	SHARED s64 buffer[9];
	s64 n = 0;
	for (u32 i = thread(); i < rows; i += ROW) n += target[i] >= 0;
	n = fold<Sum<s64>>(n, buffer);
	if (thread() == 0) *count = (float)n;
}

// cross_entropy_f32: loss[r] is log(sum of e^x) - x[target[r]] of row r of x, and row r
// of grad its gradient times dy / count. Both are 0 where the target is -1. loss or grad
// may be null. Rows of x are stride elements apart.
KERNEL THREADS(ROW) cross_entropy_f32(const float *x, const int *target, const float *count, const float *dy, float *grad,
	float *loss, u32 columns, u64 stride) {
	SHARED float buffer[9];
	const float *in = x + block() * stride;
	float *out = grad + (u64)block() * columns;
	int t = target[block()];
	if (t < 0) {
		if (grad) for (u32 i = thread(); i < columns; i += ROW) out[i] = 0;
		if (loss && thread() == 0) loss[block()] = 0;
		return;
	}
	float m = Max<float>::zero(), s = 0;
	for (u32 i = thread(); i < columns; i += ROW) m = Max<float>::of(m, in[i]);
	m = fold<Max<float>>(m, buffer);
	for (u32 i = thread(); i < columns; i += ROW) s += exponential(in[i] - m);
	s = fold<Sum<float>>(s, buffer);
	if (loss && thread() == 0) loss[block()] = logarithm(s) + m - in[t];
	if (!grad) return;
	float scale = *dy / *count;
	for (u32 i = thread(); i < columns; i += ROW) out[i] = (exponential(in[i] - m) / s - (i == t ? 1.0f : 0.0f)) * scale;
}

// quotient_f32: y is x / count.
KERNEL THREADS(ROW) quotient_f32(const float *x, const float *count, float *y) {
	if (thread() == 0) *y = *x / *count;
}
