// Softmax of rows, and what belongs to it.
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

// causal_softmax_f32: each row of y is the softmax of x * scale. Row i of each matrix of
// so many rows sees the columns up to i + columns - rows, and has 0 beyond.
KERNEL THREADS(ROW) causal_softmax_f32(const float *x, float *y, u32 rows, u32 columns, float scale) {
	SHARED float buffer[9];
	const float *in = x + (u64)block() * columns;
	float *out = y + (u64)block() * columns;
	u32 seen = block() % rows + columns - rows + 1;
	float m = Max<float>::zero(), s = 0;
	for (u32 i = thread(); i < seen; i += ROW) m = Max<float>::of(m, in[i] * scale);
	m = fold<Max<float>>(m, buffer);
	for (u32 i = thread(); i < seen; i += ROW) s += exponential(in[i] * scale - m);
	s = fold<Sum<float>>(s, buffer);
	for (u32 i = thread(); i < columns; i += ROW) out[i] = i < seen ? exponential(in[i] * scale - m) / s : 0;
}

// log_softmax_f32: each row of y is x - m - log of the sum of e^(x - m).
KERNEL THREADS(ROW) log_softmax_f32(const float *x, float *y, u32 columns) {
	SHARED float buffer[9];
	const float *in = x + (u64)block() * columns;
	float *out = y + (u64)block() * columns;
	float m = Max<float>::zero(), s = 0;
	for (u32 i = thread(); i < columns; i += ROW) m = Max<float>::of(m, in[i]);
	m = fold<Max<float>>(m, buffer);
	for (u32 i = thread(); i < columns; i += ROW) s += exponential(in[i] - m);
	float l = logarithm(fold<Sum<float>>(s, buffer));
	for (u32 i = thread(); i < columns; i += ROW) out[i] = in[i] - m - l;
}

// softmax_grad_f32: each row of dx is y * (dy - sum of y * dy), y a softmax.
KERNEL THREADS(ROW) softmax_grad_f32(const float *y, const float *dy, float *dx, u32 columns) {
	SHARED float buffer[9];
	u64 row = (u64)block() * columns;
	float s = 0;
	for (u32 i = thread(); i < columns; i += ROW) s += y[row + i] * dy[row + i];
	s = fold<Sum<float>>(s, buffer);
	for (u32 i = thread(); i < columns; i += ROW) dx[row + i] = y[row + i] * (dy[row + i] - s);
}

// log_softmax_grad_f32: each row of dx is dy - e^y * sum of dy, y a log_softmax.
KERNEL THREADS(ROW) log_softmax_grad_f32(const float *y, const float *dy, float *dx, u32 columns) {
	SHARED float buffer[9];
	u64 row = (u64)block() * columns;
	float s = 0;
	for (u32 i = thread(); i < columns; i += ROW) s += dy[row + i];
	s = fold<Sum<float>>(s, buffer);
	for (u32 i = thread(); i < columns; i += ROW) dx[row + i] = dy[row + i] - exponential(y[row + i]) * s;
}
