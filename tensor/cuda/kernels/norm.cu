// Norms of rows.
#include "tree.h"

// layernorm_f32: each row of y is (x - mean) / sqrt(variance + epsilon) * scale + shift.
KERNEL THREADS(ROW) layernorm_f32(const float *x, const float *scale, const float *shift, float *y, u32 columns, float epsilon) {
	SHARED float buffer[9];
	const float *in = x + (u64)block() * columns;
	float *out = y + (u64)block() * columns;
	float s = 0, q = 0;
	for (u32 i = thread(); i < columns; i += ROW) s += in[i];
	float mean = fold<Sum<float>>(s, buffer) / (float)columns;
	for (u32 i = thread(); i < columns; i += ROW) q += (in[i] - mean) * (in[i] - mean);
	float deviation = __builtin_sqrtf(fold<Sum<float>>(q, buffer) / (float)columns + epsilon);
	for (u32 i = thread(); i < columns; i += ROW) out[i] = (in[i] - mean) / deviation * scale[i] + shift[i];
}

// rmsnorm_f32: each row of y is x / sqrt(mean of squares + epsilon) * scale.
KERNEL THREADS(ROW) rmsnorm_f32(const float *x, const float *scale, float *y, u32 columns, float epsilon) {
	SHARED float buffer[9];
	const float *in = x + (u64)block() * columns;
	float *out = y + (u64)block() * columns;
	float q = 0;
	for (u32 i = thread(); i < columns; i += ROW) q += in[i] * in[i];
	float root = __builtin_sqrtf(fold<Sum<float>>(q, buffer) / (float)columns + epsilon);
	for (u32 i = thread(); i < columns; i += ROW) out[i] = in[i] / root * scale[i];
}
