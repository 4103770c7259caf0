// Norms of rows.
#include "tree.h"

// Statistics are of a row: what is subtracted of each element, and by what the rest is
// divided. A norm without a mean subtracts 0.
template <class T> struct Statistics {
	T mean, deviation;
};

template <bool MEAN, class T> DEVICE Statistics<T> statistics(const T *in, u32 columns, T epsilon, T *buffer) {
	T s = 0, q = 0, mean = 0;
	if (MEAN) {
		for (u32 i = thread(); i < columns; i += ROW) s += in[i];
		mean = fold<Sum<T>>(s, buffer) / (T)columns;
	}
	for (u32 i = thread(); i < columns; i += ROW) q += (in[i] - mean) * (in[i] - mean);
	return {mean, root(fold<Sum<T>>(q, buffer) / (T)columns + epsilon)};
}

// layernorm: each row of y is (x - mean) / sqrt(variance + epsilon) * scale + shift. scale
// and shift may be null.
template <class T> DEVICE void layernorm(const T *x, const T *scale, const T *shift, T *y, u32 columns, T epsilon, T *buffer) {
	const T *in = x + (u64)block() * columns;
	T *out = y + (u64)block() * columns;
	Statistics<T> s = statistics<true>(in, columns, epsilon, buffer);
	for (u32 i = thread(); i < columns; i += ROW) {
		T v = (in[i] - s.mean) / s.deviation;
		if (scale) v *= scale[i];
		out[i] = shift ? v + shift[i] : v;
	}
}

// rmsnorm: each row of y is x / sqrt(mean of squares + epsilon) * scale. scale may be null.
template <class T> DEVICE void rmsnorm(const T *x, const T *scale, T *y, u32 columns, T epsilon, T *buffer) {
	const T *in = x + (u64)block() * columns;
	T *out = y + (u64)block() * columns;
	Statistics<T> s = statistics<false>(in, columns, epsilon, buffer);
	for (u32 i = thread(); i < columns; i += ROW) out[i] = scale ? in[i] / s.deviation * scale[i] : in[i] / s.deviation;
}

// gradient: with the row n = (x - mean) / deviation and g = dy * scale, dx is
// (g - mean(g) - n * mean(g * n)) / deviation, without mean(g) for a norm without a mean,
// and products is dy * n, whose sum over the rows is the gradient of scale. scale, dx and
// products may be null.
template <bool MEAN, class T> DEVICE void gradient(const T *x, const T *dy, const T *scale, T *dx, T *products,
	u32 columns, T epsilon, T *buffer) {
	u64 row = (u64)block() * columns;
	const T *in = x + row, *d = dy + row;
	Statistics<T> s = statistics<MEAN>(in, columns, epsilon, buffer);
	T sum = 0, product = 0;
	for (u32 i = thread(); i < columns; i += ROW) {
		T n = (in[i] - s.mean) / s.deviation, g = scale ? d[i] * scale[i] : d[i];
		sum += g;
		product += g * n;
		if (products) products[row + i] = d[i] * n;
	}
	if (!dx) return;
	sum = MEAN ? fold<Sum<T>>(sum, buffer) / (T)columns : (T)0;
	product = fold<Sum<T>>(product, buffer) / (T)columns;
	for (u32 i = thread(); i < columns; i += ROW) {
		T n = (in[i] - s.mean) / s.deviation, g = scale ? d[i] * scale[i] : d[i];
		dx[row + i] = (g - sum - n * product) / s.deviation;
	}
}

#define NORMS(D, T) \
	KERNEL THREADS(ROW) layernorm_##D(const T *x, const T *scale, const T *shift, T *y, u32 columns, T epsilon) { \
		SHARED T buffer[9]; \
		layernorm(x, scale, shift, y, columns, epsilon, buffer); \
	} \
	KERNEL THREADS(ROW) rmsnorm_##D(const T *x, const T *scale, T *y, u32 columns, T epsilon) { \
		SHARED T buffer[9]; \
		rmsnorm(x, scale, y, columns, epsilon, buffer); \
	} \
	KERNEL THREADS(ROW) layernorm_grad_##D(const T *x, const T *dy, const T *scale, T *dx, T *products, u32 columns, T epsilon) { \
		SHARED T buffer[9]; \
		gradient<true>(x, dy, scale, dx, products, columns, epsilon, buffer); \
	} \
	KERNEL THREADS(ROW) rmsnorm_grad_##D(const T *x, const T *dy, const T *scale, T *dx, T *products, u32 columns, T epsilon) { \
		SHARED T buffer[9]; \
		gradient<false>(x, dy, scale, dx, products, columns, epsilon, buffer); \
	}
NORMS(f32, float)
NORMS(f64, double)
