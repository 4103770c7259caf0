// Kernels that read and write at places which an index gives. Sums are in the order of
// the index, without atomics: a thread owns all that is added to an element.
#include "device.h"

// gather: y[o][j][i] = x[o][index[o][j][i]][i]. x has rows there, y and index have so many
// places; grid.y is o. An index beyond rows leaves the element as it is; failed becomes the
// first such place in y.
template <class T> DEVICE void gather(const T *x, const int *index, T *y, u32 rows, u32 places, u32 inner, u32 *failed) {
	u32 at = block() * 256 + thread();
	if (at >= places * inner) return;
	u64 k = (u64)block_y() * places * inner + at;
	int from = index[k];
	if (from < 0 || from >= rows) {
		__nvvm_atom_min_gen_ui(failed, (u32)k);
		return;
	}
	y[k] = x[((u64)block_y() * rows + from) * inner + at % inner];
}

#define GATHER(NAME, T) \
	KERNEL THREADS(256) NAME(const T *x, const int *index, T *y, u32 rows, u32 places, u32 inner, u32 *failed) { \
		gather<T>(x, index, y, rows, places, inner, failed); \
	}
GATHER(gather_axis_b8, u8)
GATHER(gather_axis_b16, u16)
GATHER(gather_axis_b32, u32)
GATHER(gather_axis_b64, u64)

// scatter: y[o][index[o][j][i]][i] += s[o][j][i], in the order of j. See gather.
template <class T> DEVICE void scatter(const T *s, const int *index, T *y, u32 rows, u32 places, u32 inner, u32 *failed) {
	u32 i = block() * 256 + thread();
	if (i >= inner) return;
	for (u32 j = 0; j < places; j++) {
		u64 k = ((u64)block_y() * places + j) * inner + i;
		int to = index[k];
		if (to < 0 || to >= rows) __nvvm_atom_min_gen_ui(failed, (u32)k);
		else y[((u64)block_y() * rows + to) * inner + i] += s[k];
	}
}

#define SCATTER(NAME, T) \
	KERNEL THREADS(256) NAME(const T *s, const int *index, T *y, u32 rows, u32 places, u32 inner, u32 *failed) { \
		scatter<T>(s, index, y, rows, places, inner, failed); \
	}
SCATTER(scatter_add_f32, float)
SCATTER(scatter_add_f64, double)
SCATTER(scatter_add_i32, u32)
SCATTER(scatter_add_i64, u64)
SCATTER(scatter_add_u8, u8)

// index_chain links equal indices: next[j] is the first place after j with j's index, or
// places; first[j] is 1 if there is none before. failed is as in gather.
KERNEL THREADS(256) index_chain(const int *index, u32 *next, u32 *first, u32 rows, u32 places, u32 *failed) {
	SHARED int tile[256];
	u32 j = block() * 256 + thread();
	int own = j < places ? index[j] : -1;
	u32 after = places, leads = 1;
	for (u32 from = 0; from < places; from += 256) {
		if (from + thread() < places) tile[thread()] = index[from + thread()];
		barrier();
		u32 n = places - from < 256 ? places - from : 256;
		for (u32 k = 0; k < n; k++) {
			if (tile[k] != own) continue;
			if (from + k < j) leads = 0;
			if (from + k > j && from + k < after) after = from + k;
		}
		barrier();
	}
	if (j >= places) return;
	if (own < 0 || own >= rows) __nvvm_atom_min_gen_ui(failed, j);
	next[j] = after;
	first[j] = leads;
}

// add: y[o][index[j]][i] += s[o][j][i], in the order of j, which is in chains that
// index_chain made. Block j of the grid's x follows the chain that begins there.
template <class T> DEVICE void add(const T *s, const int *index, const u32 *next, const u32 *first, T *y,
	u32 rows, u32 places, u32 inner) {
	int to = index[block()];
	if (!first[block()] || to < 0 || to >= rows) return;
	T *row = y + ((u64)block_y() * rows + to) * inner;
	for (u32 i = thread(); i < inner; i += 256) {
		T v = row[i];
		for (u32 j = block(); j < places; j = next[j]) v += s[((u64)block_y() * places + j) * inner + i];
		row[i] = v;
	}
}

#define ADD(NAME, T) \
	KERNEL THREADS(256) NAME(const T *s, const int *index, const u32 *next, const u32 *first, T *y, \
		u32 rows, u32 places, u32 inner) { \
		add<T>(s, index, next, first, y, rows, places, inner); \
	}
ADD(index_add_f32, float)
ADD(index_add_f64, double)
ADD(index_add_i32, u32)
ADD(index_add_i64, u64)
ADD(index_add_u8, u8)

// index_check makes index, of i64, one of i32 that is within rows: out[j] is -1 where
// ignores is set and index[j] is ignored, 0 where it is out of range. failed becomes the
// first such place. A negative index counts from rows where wraps is set.
KERNEL THREADS(256) index_check(const s64 *index, int *out, u32 places, u32 rows, u32 wraps, u32 ignores, s64 ignored, u32 *failed) {
	u32 j = block() * 256 + thread();
	if (j >= places) return;
	s64 v = index[j];
	bool skip = ignores && v == ignored;
	if (wraps && v < 0) v += rows;
	bool bad = !skip && (v < 0 || v >= rows);
	if (bad) __nvvm_atom_min_gen_ui(failed, j);
	out[j] = skip ? -1 : bad ? 0 : (int)v;
}

// index_failed writes the first place that failed, if one did, and the index there into
// the record at *record, with the number of the step. A record that an earlier step has
// written stays as it is. It may be memory of the host.
KERNEL THREADS(256) index_failed(const s64 *index, const u32 *failed, u32 *const *record, u32 step) {
	if (thread() || *failed == ~0u) return;
	u32 *r = *record;
	if (*r != ~0u) return;
	r[1] = *failed;
	*(s64 *)(r + 2) = index[*failed];
	r[0] = step;
}
