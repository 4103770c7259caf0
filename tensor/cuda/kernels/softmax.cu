// Softmax of rows, and what belongs to it.
#include "tree.h"

// softmax: each row of y is e^(x - m) over its sum, m the maximum of the row of x.
template <class T> DEVICE void softmax(const T *x, T *y, u32 columns, T *buffer) {
	const T *in = x + (u64)block() * columns;
	T *out = y + (u64)block() * columns;
	T m = Max<T>::zero(), s = 0;
	for (u32 i = thread(); i < columns; i += ROW) m = Max<T>::of(m, in[i]);
	m = fold<Max<T>>(m, buffer);
	for (u32 i = thread(); i < columns; i += ROW) s += exponential(in[i] - m);
	s = fold<Sum<T>>(s, buffer);
	for (u32 i = thread(); i < columns; i += ROW) out[i] = exponential(in[i] - m) / s;
}

// causal_softmax: each row of y is the softmax of x * scale. Row i of each matrix of so
// many rows sees the columns up to i + columns - rows, and has 0 beyond.
template <class T> DEVICE void causal_softmax(const T *x, T *y, u32 rows, u32 columns, T scale, T *buffer) {
	const T *in = x + (u64)block() * columns;
	T *out = y + (u64)block() * columns;
	u32 seen = block() % rows + columns - rows + 1;
	T m = Max<T>::zero(), s = 0;
	for (u32 i = thread(); i < seen; i += ROW) m = Max<T>::of(m, in[i] * scale);
	m = fold<Max<T>>(m, buffer);
	for (u32 i = thread(); i < seen; i += ROW) s += exponential(in[i] * scale - m);
	s = fold<Sum<T>>(s, buffer);
	for (u32 i = thread(); i < columns; i += ROW) out[i] = i < seen ? exponential(in[i] * scale - m) / s : 0;
}

// log_softmax: each row of y is x - m - log of the sum of e^(x - m).
template <class T> DEVICE void log_softmax(const T *x, T *y, u32 columns, T *buffer) {
	const T *in = x + (u64)block() * columns;
	T *out = y + (u64)block() * columns;
	T m = Max<T>::zero(), s = 0;
	for (u32 i = thread(); i < columns; i += ROW) m = Max<T>::of(m, in[i]);
	m = fold<Max<T>>(m, buffer);
	for (u32 i = thread(); i < columns; i += ROW) s += exponential(in[i] - m);
	T l = logarithm(fold<Sum<T>>(s, buffer));
	for (u32 i = thread(); i < columns; i += ROW) out[i] = in[i] - m - l;
}

// softmax_grad: each row of dx is y * (dy - sum of y * dy), y a softmax.
template <class T> DEVICE void softmax_grad(const T *y, const T *dy, T *dx, u32 columns, T *buffer) {
	u64 row = (u64)block() * columns;
	T s = 0;
	for (u32 i = thread(); i < columns; i += ROW) s += y[row + i] * dy[row + i];
	s = fold<Sum<T>>(s, buffer);
	for (u32 i = thread(); i < columns; i += ROW) dx[row + i] = y[row + i] * (dy[row + i] - s);
}

// log_softmax_grad: each row of dx is dy - e^y * sum of dy, y a log_softmax.
template <class T> DEVICE void log_softmax_grad(const T *y, const T *dy, T *dx, u32 columns, T *buffer) {
	u64 row = (u64)block() * columns;
	T s = 0;
	for (u32 i = thread(); i < columns; i += ROW) s += dy[row + i];
	s = fold<Sum<T>>(s, buffer);
	for (u32 i = thread(); i < columns; i += ROW) dx[row + i] = dy[row + i] - exponential(y[row + i]) * s;
}

#define SOFTMAXES(D, T) \
	KERNEL THREADS(ROW) softmax_##D(const T *x, T *y, u32 columns) { \
		SHARED T buffer[9]; \
		softmax(x, y, columns, buffer); \
	} \
	KERNEL THREADS(ROW) causal_softmax_##D(const T *x, T *y, u32 rows, u32 columns, T scale) { \
		SHARED T buffer[9]; \
		causal_softmax(x, y, rows, columns, scale, buffer); \
	} \
	KERNEL THREADS(ROW) log_softmax_##D(const T *x, T *y, u32 columns) { \
		SHARED T buffer[9]; \
		log_softmax(x, y, columns, buffer); \
	} \
	KERNEL THREADS(ROW) softmax_grad_##D(const T *y, const T *dy, T *dx, u32 columns) { \
		SHARED T buffer[9]; \
		softmax_grad(y, dy, dx, columns, buffer); \
	} \
	KERNEL THREADS(ROW) log_softmax_grad_##D(const T *y, const T *dy, T *dx, u32 columns) { \
		SHARED T buffer[9]; \
		log_softmax_grad(y, dy, dx, columns, buffer); \
	}
SOFTMAXES(f32, float)
SOFTMAXES(f64, double)
