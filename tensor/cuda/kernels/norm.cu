// Norms of rows.
#include "tree.h"

// statistics are of a row: what is subtracted of each element, and by what the rest is
// divided. A norm without a mean subtracts 0.
struct Statistics {
	float mean, deviation;
};

template <bool MEAN> DEVICE Statistics statistics(const float *in, u32 columns, float epsilon, float *buffer) {
	float s = 0, q = 0, mean = 0;
	if (MEAN) {
		for (u32 i = thread(); i < columns; i += ROW) s += in[i];
		mean = fold<Sum<float>>(s, buffer) / (float)columns;
	}
	for (u32 i = thread(); i < columns; i += ROW) q += (in[i] - mean) * (in[i] - mean);
	return {mean, __builtin_sqrtf(fold<Sum<float>>(q, buffer) / (float)columns + epsilon)};
}

// layernorm_f32: each row of y is (x - mean) / sqrt(variance + epsilon) * scale + shift.
// scale and shift may be null.
KERNEL THREADS(ROW) layernorm_f32(const float *x, const float *scale, const float *shift, float *y, u32 columns, float epsilon) {
	SHARED float buffer[9];
	const float *in = x + (u64)block() * columns;
	float *out = y + (u64)block() * columns;
	Statistics s = statistics<true>(in, columns, epsilon, buffer);
	for (u32 i = thread(); i < columns; i += ROW) {
		float v = (in[i] - s.mean) / s.deviation;
		if (scale) v *= scale[i];
		out[i] = shift ? v + shift[i] : v;
	}
}

// rmsnorm_f32: each row of y is x / sqrt(mean of squares + epsilon) * scale. scale may be
// null.
KERNEL THREADS(ROW) rmsnorm_f32(const float *x, const float *scale, float *y, u32 columns, float epsilon) {
	SHARED float buffer[9];
	const float *in = x + (u64)block() * columns;
	float *out = y + (u64)block() * columns;
	Statistics s = statistics<false>(in, columns, epsilon, buffer);
	for (u32 i = thread(); i < columns; i += ROW) out[i] = scale ? in[i] / s.deviation * scale[i] : in[i] / s.deviation;
}

// gradient: with the row n = (x - mean) / deviation and g = dy * scale, dx is
// (g - mean(g) - n * mean(g * n)) / deviation, without mean(g) for a norm without a mean,
// and products is dy * n, whose sum over the rows is the gradient of scale. scale, dx and
// products may be null.
template <bool MEAN> DEVICE void gradient(const float *x, const float *dy, const float *scale, float *dx, float *products,
	u32 columns, float epsilon, float *buffer) {
	u64 row = (u64)block() * columns;
	const float *in = x + row, *d = dy + row;
	Statistics s = statistics<MEAN>(in, columns, epsilon, buffer);
	float sum = 0, product = 0;
	for (u32 i = thread(); i < columns; i += ROW) {
		float n = (in[i] - s.mean) / s.deviation, g = scale ? d[i] * scale[i] : d[i];
		sum += g;
		product += g * n;
		if (products) products[row + i] = d[i] * n;
	}
	if (!dx) return;
	sum = MEAN ? fold<Sum<float>>(sum, buffer) / (float)columns : 0;
	product = fold<Sum<float>>(product, buffer) / (float)columns;
	for (u32 i = thread(); i < columns; i += ROW) {
		float n = (in[i] - s.mean) / s.deviation, g = scale ? d[i] * scale[i] : d[i];
		dx[row + i] = (g - sum - n * product) / s.deviation;
	}
}

// layernorm_grad_f32 and rmsnorm_grad_f32 are the gradients of the norms.
KERNEL THREADS(ROW) layernorm_grad_f32(const float *x, const float *dy, const float *scale, float *dx, float *products,
	u32 columns, float epsilon) {
	SHARED float buffer[9];
	gradient<true>(x, dy, scale, dx, products, columns, epsilon, buffer);
}
KERNEL THREADS(ROW) rmsnorm_grad_f32(const float *x, const float *dy, const float *scale, float *dx, float *products,
	u32 columns, float epsilon) {
	SHARED float buffer[9];
	gradient<false>(x, dy, scale, dx, products, columns, epsilon, buffer);
}
