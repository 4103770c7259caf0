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

// prod_f32: y[r][p] is the product of part p of row r of x.
KERNEL THREADS(ROW) prod_f32(const float *x, float *y, u32 columns, u32 part) { REDUCE(Product, float) = v; }
KERNEL THREADS(ROW) prod_f64(const double *x, double *y, u32 columns, u32 part) { REDUCE(Product, double) = v; }
KERNEL THREADS(ROW) prod_i64(const s64 *x, s64 *y, u32 columns, u32 part) { REDUCE(Product, s64) = v; }

// max_f32: y[r][p] is the largest of part p of row r of x, NaN if it has one.
KERNEL THREADS(ROW) max_f32(const float *x, float *y, u32 columns, u32 part) { REDUCE(Max, float) = v; }
KERNEL THREADS(ROW) max_f64(const double *x, double *y, u32 columns, u32 part) { REDUCE(Max, double) = v; }
KERNEL THREADS(ROW) max_i64(const s64 *x, s64 *y, u32 columns, u32 part) { REDUCE(Max, s64) = v; }

// min_f32: y[r][p] is the smallest of part p of row r of x, NaN if it has one.
KERNEL THREADS(ROW) min_f32(const float *x, float *y, u32 columns, u32 part) { REDUCE(Min, float) = v; }
KERNEL THREADS(ROW) min_f64(const double *x, double *y, u32 columns, u32 part) { REDUCE(Min, double) = v; }
KERNEL THREADS(ROW) min_i64(const s64 *x, s64 *y, u32 columns, u32 part) { REDUCE(Min, s64) = v; }

// sum_columns: y[o][p][i] is scale times the sum of x[o][k][i] over part p of the rows k.
// grid.y is p, grid.z is o; a block sums 32 columns, each warp every eighth row.
template <class T> DEVICE void sum_columns(const T *x, T *y, u32 rows, u32 columns, u32 part, T scale, T (*sums)[32]) {
	u32 lane = thread() % 32, warp = thread() / 32, i = block() * 32 + lane;
	u32 from = block_y() * part, to = rows - from < part ? rows : from + part;
	T v = 0;
	if (i < columns) {
		for (u32 k = from + warp; k < to; k += ROW / 32) v += x[((u64)block_z() * rows + k) * columns + i];
	}
	sums[warp][lane] = v;
	barrier();
	if (warp || i >= columns) return;
	for (u32 w = 1; w < ROW / 32; w++) v += sums[w][lane];
	y[((u64)block_z() * blocks_y() + block_y()) * columns + i] = v * scale;
}

KERNEL THREADS(ROW) sum_columns_f32(const float *x, float *y, u32 rows, u32 columns, u32 part, float scale) {
	SHARED float sums[ROW / 32][32];
	sum_columns(x, y, rows, columns, part, scale, sums);
}
KERNEL THREADS(ROW) sum_columns_f64(const double *x, double *y, u32 rows, u32 columns, u32 part, double scale) {
	SHARED double sums[ROW / 32][32];
	sum_columns(x, y, rows, columns, part, scale, sums);
}

// prod_grad: each element of row r of dx is dy[r] times the product, in f64, of the row of
// x without that element: of those before it and of those after it. A thread has a part of
// the row; products is memory for as many elements as x has.
template <class T> DEVICE void prod_grad(const T *x, const T *dy, T *dx, double *products, u32 columns, double *parts) {
	u64 row = (u64)block() * columns;
	u32 part = (columns + ROW - 1) / ROW, threads = (columns + part - 1) / part;
	u32 from = thread() * part < columns ? thread() * part : columns, to = columns - from < part ? columns : from + part;
	double all = 1, before = 1, after = 1;
	for (u32 i = from; i < to; i++) all *= (double)x[row + i];
	parts[thread()] = all;
	barrier();
	for (u32 t = 0; t < threads; t++) {
		if (t < thread()) before *= parts[t];
		if (t > thread()) after *= parts[t];
	}
	for (u32 i = from; i < to; i++) {
		products[row + i] = before;
		before *= (double)x[row + i];
	}
	for (u32 i = to; i > from; i--) {
		double own = (double)x[row + i - 1];
		dx[row + i - 1] = (T)(products[row + i - 1] * after * (double)dy[block()]);
		after *= own;
	}
}

KERNEL THREADS(ROW) prod_grad_f32(const float *x, const float *dy, float *dx, double *products, u32 columns) {
	SHARED double parts[ROW];
	prod_grad(x, dy, dx, products, columns, parts);
}
KERNEL THREADS(ROW) prod_grad_f64(const double *x, const double *dy, double *dx, double *products, u32 columns) {
	SHARED double parts[ROW];
	prod_grad(x, dy, dx, products, columns, parts);
}

// before reports whether element i with value a is the extreme rather than j with b: NaN
// before all numbers, and the first of equals. The extreme is the least where LEAST is set.
template <bool LEAST, class T> DEVICE bool before(T a, u32 i, T b, u32 j) {
	bool nan_a = a != a, nan_b = b != b;
	if (nan_a || nan_b) return nan_a && (!nan_b || i < j);
	return (LEAST ? a < b : a > b) || (a == b && i < j);
}

// extreme returns the place of the first extreme of a row of x, in thread 0.
template <bool LEAST, class T> DEVICE u32 extreme(const T *x, u32 columns, T *values, u32 *places) {
	const T *row = x + (u64)block() * columns;
	T v = LEAST ? Limit<T>::most() : Limit<T>::least();
	u32 at = ~0u;
	for (u32 i = thread(); i < columns; i += ROW) {
		if (before<LEAST>(row[i], i, v, at)) v = row[i], at = i;
	}
	for (u32 n = 16; n; n /= 2) {
		T other = down(v, n);
		u32 place = down(at, n);
		if (before<LEAST>(other, place, v, at)) v = other, at = place;
	}
	if (thread() % 32 == 0) values[thread() / 32] = v, places[thread() / 32] = at;
	barrier();
	for (u32 w = 1; w < ROW / 32 && thread() == 0; w++) {
		if (before<LEAST>(values[w], places[w], v, at)) v = values[w], at = places[w];
	}
	return at;
}

#define PLACE(LEAST, T) \
	SHARED T values[ROW / 32]; \
	SHARED u32 places[ROW / 32]; \
	u32 at = extreme<LEAST, T>(x, columns, values, places); \
	if (thread() == 0) y[block()] = at;

// argmax_f32: y[r] is the place of the first maximum of row r of x, argmin_f32 of the
// first minimum.
KERNEL THREADS(ROW) argmax_f32(const float *x, u32 *y, u32 columns) { PLACE(false, float) }
KERNEL THREADS(ROW) argmax_f64(const double *x, u32 *y, u32 columns) { PLACE(false, double) }
KERNEL THREADS(ROW) argmax_i64(const s64 *x, u32 *y, u32 columns) { PLACE(false, s64) }
KERNEL THREADS(ROW) argmin_f32(const float *x, u32 *y, u32 columns) { PLACE(true, float) }
KERNEL THREADS(ROW) argmin_f64(const double *x, u32 *y, u32 columns) { PLACE(true, double) }
KERNEL THREADS(ROW) argmin_i64(const s64 *x, u32 *y, u32 columns) { PLACE(true, s64) }
