// Softmax of rows.
#include "tree.h"

// softmax_f32: each row of y is e^(x - m) over its sum, m the maximum of the row of x.
KERNEL THREADS(ROW) softmax_f32(const float *x, float *y, u32 columns) {
	SHARED float buffer[9];
	const float *in = x + (u64)block() * columns;
	float *out = y + (u64)block() * columns;
	float m = Max<float>::zero(), s = 0;
	for (u32 i = thread(); i < columns; i += ROW) m = Max<float>::of(m, in[i]);
	m = fold<Max<float>>(m, buffer);
	for (u32 i = thread(); i < columns; i += ROW) s += exponential(in[i] - m);
	s = fold<Sum<float>>(s, buffer);
	for (u32 i = thread(); i < columns; i += ROW) out[i] = exponential(in[i] - m) / s;
}
