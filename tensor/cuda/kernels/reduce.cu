// Reductions of rows to one value each.
#include "tree.h"

template <class F> DEVICE void reduce(const float *x, float *y, u32 columns, float *buffer) {
	const float *row = x + (u64)block() * columns;
	float v = F::zero();
	for (u32 i = thread(); i < columns; i += ROW) v = F::of(v, row[i]);
	v = fold<F>(v, buffer);
	if (thread() == 0) y[block()] = v;
}

// sum_f32: y[r] is the sum of row r of x.
KERNEL THREADS(ROW) sum_f32(const float *x, float *y, u32 columns) {
	SHARED float buffer[9];
	reduce<Sum>(x, y, columns, buffer);
}

// max_f32: y[r] is the largest of row r of x, NaN if it has one.
KERNEL THREADS(ROW) max_f32(const float *x, float *y, u32 columns) {
	SHARED float buffer[9];
	reduce<Max>(x, y, columns, buffer);
}

// before reports whether element i with value a is the maximum rather than j with b: NaN
// above all numbers, and the first of equals.
DEVICE bool before(float a, u32 i, float b, u32 j) {
	bool nan_a = a != a, nan_b = b != b;
	if (nan_a || nan_b) return nan_a && (!nan_b || i < j);
	return a > b || (a == b && i < j);
}

// argmax_f32: y[r] is the place of the first maximum of row r of x.
KERNEL THREADS(ROW) argmax_f32(const float *x, u32 *y, u32 columns) {
	SHARED float values[ROW / 32];
	SHARED u32 places[ROW / 32];
	const float *row = x + (u64)block() * columns;
	float v = -__builtin_inff();
	u32 at = ~0u;
	for (u32 i = thread(); i < columns; i += ROW) {
		if (before(row[i], i, v, at)) v = row[i], at = i;
	}
	for (u32 n = 16; n; n /= 2) {
		float other = down(v, n);
		u32 place = down(at, n);
		if (before(other, place, v, at)) v = other, at = place;
	}
	if (thread() % 32 == 0) values[thread() / 32] = v, places[thread() / 32] = at;
	barrier();
	if (thread()) return;
	for (u32 w = 1; w < ROW / 32; w++) {
		if (before(values[w], places[w], v, at)) v = values[w], at = places[w];
	}
	y[block()] = at;
}
