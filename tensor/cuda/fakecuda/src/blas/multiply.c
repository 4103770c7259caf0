// A product: every sum in the order of its terms, in parts where the algorithm has
// several, whose sums lie in the workspace meanwhile.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lt.h"

enum { LAUNCH_FAILED = 719, ILLEGAL_ADDRESS = 700 };

static float from_bits(uint32_t u) {
	float f;
	memcpy(&f, &u, sizeof f);
	return f;
}

static float from_half(uint16_t h) {
	uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = h >> 10 & 31, fraction = h & 1023;
	if (exponent == 31) return from_bits(sign | 0x7f800000 | fraction << 13);
	if (exponent) return from_bits(sign | (exponent + 112) << 23 | fraction << 13);
	float small = (float)fraction / 16777216;
	return sign ? -small : small;
}

// to_tf32 rounds to ten bits of fraction, ties to even.
static float to_tf32(float f) {
	uint32_t u;
	memcpy(&u, &f, sizeof u);
	if ((u & 0x7f800000) != 0x7f800000) u = (u + 0xfff + (u >> 13 & 1)) & ~0x1fffu;
	return from_bits(u);
}

static double element(const char *p, const Desc *d, int type) {
	float f;
	uint16_t h;
	double wide;
	switch (type) {
	case R_64F: memcpy(&wide, p, 8); return wide;
	case R_32F: memcpy(&f, p, 4); return d->compute == COMPUTE_32F_TF32 ? to_tf32(f) : f;
	}
	memcpy(&h, p, 2);
	return type == R_16F ? from_half(h) : from_bits((uint32_t)h << 16);
}

// unpacked returns op(matrix) as doubles, row by row or, for the second operand, too; NULL
// if something in it was never written. Every element of the narrower types is a double.
static double *unpacked(const Work *w, const Layout *l, Ptr at, bool trans) {
	uint64_t size = size_of(l->type), rows = trans ? l->columns : l->rows, columns = trans ? l->rows : l->columns;
	double *out = malloc(rows * columns * sizeof *out);
	for (uint64_t c = 0; c < l->columns; c++) {
		Ptr from = at + c * l->ld * size;
		const char *p = driver()->bytes(from, l->rows * size, READ);
		if (!p || !driver()->written(from, l->rows * size)) {
			fprintf(stderr, "fake cuBLASLt: column %llu of an operand: nothing wrote it\n", (unsigned long long)c);
			free(out);
			return NULL;
		}
		for (uint64_t r = 0; r < l->rows; r++) {
			double x = element(p + r * size, &w->desc, l->type);
			if (trans) out[c * columns + r] = x;
			else out[r * columns + c] = x;
		}
	}
	return out;
}

// part adds up the terms from first to last of all sums, in the type that is computed in.
static void part(const double *a, const double *b, uint64_t m, uint64_t n, uint64_t depth, uint64_t first, uint64_t last, bool wide, double *sums) {
	memset(sums, 0, m * n * sizeof *sums);
	for (uint64_t i = 0; i < m; i++) {
		double *row = sums + i * n;
		for (uint64_t k = first; k < last; k++) {
			double x = a[i * depth + k];
			const double *y = b + k * n;
			for (uint64_t j = 0; j < n; j++) row[j] = wide ? row[j] + x * y[j] : (float)((float)row[j] + (float)(x * y[j]));
		}
	}
}

// store writes all sums of a matrix, column by column.
static void store(char *to, uint64_t size, uint64_t ld, const double *sums, uint64_t m, uint64_t n, double scale) {
	for (uint64_t j = 0; j < n; j++) {
		for (uint64_t i = 0; i < m; i++) {
			double v = sums[i * n + j] * scale;
			float f = (float)v;
			memcpy(to + (j * ld + i) * size, size == 8 ? (void *)&v : (void *)&f, size);
		}
	}
}

// load reads what store wrote.
static void load(double *sums, const char *from, uint64_t size, uint64_t m, uint64_t n) {
	for (uint64_t j = 0; j < n; j++) {
		for (uint64_t i = 0; i < m; i++) {
			float f;
			const char *p = from + (j * m + i) * size;
			if (size == 8) {
				memcpy(&sums[i * n + j], p, 8);
			} else {
				memcpy(&f, p, 4);
				sums[i * n + j] = f;
			}
		}
	}
}

static void add(double *all, const double *sums, uint64_t n, uint64_t size) {
	for (uint64_t i = 0; i < n; i++) all[i] = size == 8 ? all[i] + sums[i] : (float)((float)all[i] + (float)sums[i]);
}

// one computes one matrix of a batch.
static int one(const Work *w, Ptr a, Ptr b, Ptr d, Ptr space) {
	uint64_t m = w->d.rows, n = w->d.columns, depth = w->desc.trans[0] ? w->a.rows : w->a.columns, size = size_of(w->d.type);
	double *x = unpacked(w, &w->a, a, w->desc.trans[0]), *y = x ? unpacked(w, &w->b, b, w->desc.trans[1]) : NULL;
	char *to = driver()->bytes(d, ((n - 1) * w->d.ld + m) * size, WRITE);
	int r = !y ? LAUNCH_FAILED : !to ? ILLEGAL_ADDRESS : 0;
	double *sums = malloc(m * n * sizeof *sums), *all = calloc(m * n, sizeof *all);
	for (int k = 0; r == 0 && k < w->splits; k++) {
		// In place, the parts come in any order.
		int p = w->scheme == SCHEME_INPLACE && w->seed & 1 ? w->splits - 1 - k : k;
		part(x, y, m, n, depth, depth * p / w->splits, depth * (p + 1) / w->splits, size == 8, sums);
		if (w->scheme == SCHEME_COMPUTE_TYPE) {
			char *at = driver()->bytes(space + p * m * n * size, m * n * size, READ | WRITE);
			if (at) store(at, size, m, sums, m, n, 1);
			else r = ILLEGAL_ADDRESS;
		} else add(all, sums, m * n, size);
	}
	for (int k = 0; r == 0 && w->scheme == SCHEME_COMPUTE_TYPE && k < w->splits; k++) {
		load(sums, driver()->bytes(space + k * m * n * size, m * n * size, READ), size, m, n);
		add(all, sums, m * n, size);
	}
	if (r == 0) store(to, size, w->d.ld, all, m, n, w->alpha);
	free(x);
	free(y);
	free(sums);
	free(all);
	return r;
}

int multiply(const char *work) {
	const Work *w = (const Work *)work;
	uint64_t in = size_of(w->a.type), out = size_of(w->d.type), parts = 2 * w->d.rows * w->d.columns * out;
	for (int k = 0; k < w->d.batch; k++) {
		int r = one(w, w->at[0] + k * w->a.step * in, w->at[1] + k * w->b.step * in, w->at[2] + k * w->d.step * out, w->at[3] + k * parts);
		if (r) return r;
	}
	return 0;
}
