// Reductions of rows to one value each.
#include "tree.h"

// reduce folds elements of a row from block_y() * part on, at most part of them, into
// y[row][block_y()], where a row of y has parts values.
template <class F, class T> DEVICE T reduce(const T *x, u32 columns, u32 part, T *buffer) {
	const T *row = x + (u64)block() * columns;
	u32 from = block_y() * part, to = columns - from < part ? columns : from + part;
	T v = F::zero();
	for (u32 i = from + thread(); i < to; i += ROW) v = F::of(v, row[i]);
	return fold<F>(v, buffer);
}

#define REDUCE(F, T) \
	SHARED T buffer[9]; \
	T v = reduce<F<T>>(x, columns, part, buffer); \
	if (thread() == 0) y[(u64)block() * blocks_y() + block_y()]

// sum_f32: y[r][p] is scale times the sum of part p of row r of x. A part has so many
// elements, grid.y is the number of parts.
KERNEL THREADS(ROW) sum_f32(const float *x, float *y, u32 columns, u32 part, float scale) { REDUCE(Sum, float) = v * scale; }
KERNEL THREADS(ROW) sum_f64(const double *x, double *y, u32 columns, u32 part, double scale) { REDUCE(Sum, double) = v * scale; }
KERNEL THREADS(ROW) sum_i64(const s64 *x, s64 *y, u32 columns, u32 part, s64 scale) { REDUCE(Sum, s64) = v * scale; }

// max_f32: y[r][p] is the largest of part p of row r of x, NaN if it has one.
KERNEL THREADS(ROW) max_f32(const float *x, float *y, u32 columns, u32 part) { REDUCE(Max, float) = v; }
KERNEL THREADS(ROW) max_f64(const double *x, double *y, u32 columns, u32 part) { REDUCE(Max, double) = v; }
KERNEL THREADS(ROW) max_i64(const s64 *x, s64 *y, u32 columns, u32 part) { REDUCE(Max, s64) = v; }

// min_f32: y[r][p] is the smallest of part p of row r of x, NaN if it has one.
KERNEL THREADS(ROW) min_f32(const float *x, float *y, u32 columns, u32 part) { REDUCE(Min, float) = v; }
KERNEL THREADS(ROW) min_f64(const double *x, double *y, u32 columns, u32 part) { REDUCE(Min, double) = v; }
KERNEL THREADS(ROW) min_i64(const s64 *x, s64 *y, u32 columns, u32 part) { REDUCE(Min, s64) = v; }

// sum_columns_f32: y[o][p][i] is scale times the sum of x[o][k][i] over part p of the
// rows k. grid.y is p, grid.z is o; a block sums 32 columns, each warp every eighth row.
KERNEL THREADS(ROW) sum_columns_f32(const float *x, float *y, u32 rows, u32 columns, u32 part, float scale) {
	SHARED float sums[ROW / 32][32];
	u32 lane = thread() % 32, warp = thread() / 32, i = block() * 32 + lane;
	u32 from = block_y() * part, to = rows - from < part ? rows : from + part;
	float v = 0;
	if (i < columns) {
		for (u32 k = from + warp; k < to; k += ROW / 32) v += x[((u64)block_z() * rows + k) * columns + i];
	}
	sums[warp][lane] = v;
	barrier();
	if (warp || i >= columns) return;
	for (u32 w = 1; w < ROW / 32; w++) v += sums[w][lane];
	y[((u64)block_z() * blocks_y() + block_y()) * columns + i] = v * scale;
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
