// The two calls that take a product: which algorithms there are for it, and one of them
// run. Both check it as strictly: an algorithm runs for the product it was found for.
#include <stdlib.h>
#include <string.h>

#include "lt.h"

enum { MAGIC = 0x464c54, OP_N = 0, OP_T = 1, ORDER_COLUMN = 0 };

// fewest is the least depth of which parts are summed up apart.
static const uint64_t fewest = 32;

uint64_t size_of(int type) { return type == R_64F ? 8 : type == R_32F ? 4 : 2; }

static uint64_t hash(uint64_t h, const void *p, size_t n) {
	for (size_t k = 0; k < n; k++) h = (h ^ ((const unsigned char *)p)[k]) * 0x100000001b3ull;
	return h;
}

// hash_layout leaves out the bytes between fields.
static uint64_t hash_layout(uint64_t h, const Layout *l) {
	uint64_t all[] = {l->type, l->order, l->rows, l->columns, l->ld, l->batch, l->step, l->plane};
	return hash(h, all, sizeof all);
}

static uint64_t problem_of(const Desc *d, const Layout *const l[4]) {
	uint64_t h = hash(0xcbf29ce484222325ull, d, offsetof(Desc, rest));
	for (int k = 0; k < 4; k++) h = hash_layout(h, l[k]);
	return h;
}

// typed reports whether there are algorithms for the types of a product.
static bool typed(const Desc *d, const Layout *const l[4]) {
	if (l[0]->type != l[1]->type || l[2]->type != l[3]->type) return false;
	int in = l[0]->type, out = l[3]->type;
	if (d->compute == COMPUTE_64F) return d->scale == R_64F && in == R_64F && out == R_64F;
	if (d->scale != R_32F || out != R_32F) return false;
	if (d->compute == COMPUTE_32F_TF32) return in == R_32F;
	return d->compute == COMPUTE_32F && (in == R_32F || in == R_16F || in == R_16BF);
}

// laid reports whether a matrix lies in memory as its layout says, without an element
// that is two.
static bool laid(const Layout *l, bool output) {
	if (l->rows == 0 || l->columns == 0 || l->rows > INT32_MAX || l->columns > INT32_MAX) return false;
	if (l->ld < (int64_t)l->rows || l->ld > INT32_MAX || l->batch < 1 || l->step < 0) return false;
	return !output || l->batch == 1 || l->step >= l->ld * (int64_t)(l->columns - 1) + (int64_t)l->rows;
}

// check returns a code for a product that nothing computes.
static Status check(const Desc *d, const Layout *const l[4]) {
	const uint64_t none[20] = {0};
	for (int k = 0; k < 4; k++) {
		if (!laid(l[k], k >= 2)) return INVALID_VALUE;
		if (l[k]->batch != l[0]->batch) return INVALID_VALUE;
		if (l[k]->order != ORDER_COLUMN || l[k]->plane) return NOT_SUPPORTED;
	}
	for (int k = 0; k < 2; k++) {
		if (d->trans[k] != OP_N && d->trans[k] != OP_T) return INVALID_VALUE;
	}
	uint64_t m = d->trans[0] ? l[0]->columns : l[0]->rows, k = d->trans[0] ? l[0]->rows : l[0]->columns;
	uint64_t depth = d->trans[1] ? l[1]->columns : l[1]->rows, n = d->trans[1] ? l[1]->rows : l[1]->columns;
	if (k != depth || l[2]->rows != m || l[2]->columns != n || l[3]->rows != m || l[3]->columns != n) return INVALID_VALUE;
	if (!typed(d, l) || d->pointer_mode || d->trans[2] || d->fill != 2 || d->epilogue != 1) return NOT_SUPPORTED;
	return memcmp(d->rest, none, sizeof none) ? NOT_SUPPORTED : SUCCESS;
}

static Status layouts(const Layout *const l[4]) {
	for (int k = 0; k < 4; k++) {
		if (!exists(l[k], LAYOUT)) return INVALID_VALUE;
	}
	return SUCCESS;
}

// offers writes the algorithms for a product that a preference allows, and returns how
// many they are. The first sums its parts up in the order that the seed gives, the second
// in their own.
static int offers(Result *out, int most, const Desc *d, const Layout *const l[4], const Preference *p) {
	uint64_t depth = d->trans[0] ? l[0]->rows : l[0]->columns;
	uint64_t sums = l[3]->rows * l[3]->columns * l[3]->batch * size_of(d->scale);
	const Algo all[] = {
		{.splits = 2, .scheme = SCHEME_INPLACE, .workspace = 256},
		{.splits = 2, .scheme = SCHEME_COMPUTE_TYPE, .workspace = 2 * sums},
		{.splits = 1, .scheme = SCHEME_NONE},
	};
	int n = 0;
	for (int k = 0; k < 3 && n < most; k++) {
		Algo a = all[k];
		if (a.scheme & ~p->reduction || a.workspace > p->workspace || (a.splits > 1 && depth < fewest)) continue;
		a.magic = MAGIC;
		a.problem = problem_of(d, l);
		for (int i = 0; i < 4; i++) a.align[i] = p->align[i] < 16 ? p->align[i] : 16;
		memset(&out[n], 0, sizeof out[n]);
		out[n++] = (Result){.algo = a, .workspace = a.workspace, .waves = 1};
	}
	return n;
}

API Status cublasLtMatmulAlgoGetHeuristic(Handle *h, const Desc *d, const Layout *a, const Layout *b, const Layout *c,
	const Layout *to, const Preference *p, int most, Result *out, int *count) {
	const Layout *l[4] = {a, b, c, to};
	if (!exists(h, HANDLE)) return NOT_INITIALIZED;
	if (!exists(d, DESC) || layouts(l) || !exists(p, PREFERENCE) || most < 1 || !out || !count) return INVALID_VALUE;
	*count = 0;
	for (int i = 0; i < 4; i++) {
		if (p->align[i] & (p->align[i] - 1) || p->align[i] < size_of(l[i]->type)) return INVALID_VALUE;
	}
	if (p->search || p->reduction & ~SCHEME_MASK) return INVALID_VALUE;
	Status s = check(d, l);
	if (s) return s;
	*count = offers(out, most, d, l, p);
	return *count ? SUCCESS : NOT_SUPPORTED;
}

// span returns the bytes from a matrix's first element to its last one.
static uint64_t span(const Layout *l) {
	return ((l->batch - 1) * l->step + (l->columns - 1) * l->ld + l->rows) * size_of(l->type);
}

API Status cublasLtMatmul(Handle *h, const Desc *d, const void *alpha, Ptr a, const Layout *al, Ptr b, const Layout *bl,
	const void *beta, Ptr c, const Layout *cl, Ptr to, const Layout *tl, const Algo *algo, Ptr workspace, size_t n, void *stream) {
	const Layout *l[4] = {al, bl, cl, tl};
	Ptr at[4] = {a, b, c, to};
	int device;
	if (!exists(h, HANDLE) || driver()->device(&device) || device != h->device) return NOT_INITIALIZED;
	if (!exists(d, DESC) || layouts(l) || !alpha || !beta || !a || !b || !c || !to) return INVALID_VALUE;
	Status s = check(d, l);
	if (s) return s;
	if (!algo) return NOT_SUPPORTED; // the library would choose one by itself
	if (algo->magic != MAGIC || algo->problem != problem_of(d, l)) return INVALID_VALUE;
	if (n < algo->workspace || (algo->workspace && (!workspace || workspace % 256))) return INVALID_VALUE;
	for (int k = 0; k < 4; k++) {
		if (at[k] % algo->align[k]) return NOT_SUPPORTED;
	}
	double one = d->scale == R_64F ? *(const double *)alpha : *(const float *)alpha;
	double zero = d->scale == R_64F ? *(const double *)beta : *(const float *)beta;
	if (zero != 0 || c != to) return NOT_SUPPORTED;
	for (int k = 0; k < 2; k++) {
		if (!driver()->bytes(at[k], span(l[k]), READ)) return EXECUTION_FAILED;
		if (at[k] < to + span(tl) && to < at[k] + span(l[k])) return INVALID_VALUE;
	}
	if (!driver()->bytes(to, span(tl), WRITE)) return EXECUTION_FAILED;
	if (algo->workspace && !driver()->bytes(workspace, algo->workspace, WRITE)) return EXECUTION_FAILED;
	const char *seed = getenv("FAKECUDA_SEED");
	Work *w = malloc(sizeof *w);
	*w = (Work){.desc = *d, .a = *al, .b = *bl, .d = *tl, .at = {a, b, to, workspace}, .alpha = one, .splits = algo->splits,
		.scheme = algo->scheme, .seed = seed ? strtoull(seed, NULL, 10) : 0};
	return driver()->submit(stream, multiply, (char *)w) ? EXECUTION_FAILED : SUCCESS;
}
