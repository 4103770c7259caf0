// Kernels that move elements and rows.
#include "device.h"

#define TILE 32

// strided is an operand of a transpose: from one row of the source, or of the target, to
// the next, and along three dims of matrices. All in elements.
struct strided {
	u64 row, z0, z1, z2;
};

// at is where matrix z lies: the last of three dims, of which the last two have n1 and n2
// matrices, counts fastest.
DEVICE u64 at(strided s, u32 z, u32 n1, u32 n2) { return z / n2 / n1 * s.z0 + z / n2 % n1 * s.z1 + z % n2 * s.z2; }

// transpose: y[z][c][r] = x[z][r][c], where a row of x and one of y lie in one piece. A
// block moves a tile of 32 by 32 elements through shared memory, reading 32 elements of a
// row of x and writing 32 of a row of y at a time. Rows of the tile are an odd number of
// words apart, or 33 elements of two words, so that a column has no conflicts of banks.
// Blocks count along the columns first, then along the rows and the matrices.
template <class T, int STEP>
DEVICE void transpose(T tile[TILE][STEP], const T *x, T *y, u32 rows, u32 columns, u32 n1, u32 n2, strided from, strided to) {
	u32 across = (columns + TILE - 1) / TILE, down = (rows + TILE - 1) / TILE;
	u32 z = block() / across / down, r = block() / across % down * TILE, c = block() % across * TILE;
	u32 lane = thread() % TILE;
	x += at(from, z, n1, n2);
	y += at(to, z, n1, n2);
	for (u32 k = thread() / TILE; k < TILE; k += 8) {
		if (r + k < rows && c + lane < columns) tile[k][lane] = x[(r + k) * from.row + c + lane];
	}
	barrier();
	for (u32 k = thread() / TILE; k < TILE; k += 8) {
		if (c + k < columns && r + lane < rows) y[(c + k) * to.row + r + lane] = tile[lane][k];
	}
}

// divisor divides a number by n, which is at least 2, where the product of both is below
// 2^32.
struct divisor { u32 n, inverse; };
DEVICE divisor by(u32 n) { return divisor{n, ~0u / n + 1}; }
DEVICE u32 operator/(u32 i, divisor d) { return (u64)i * d.inverse >> 32; }

// skew is how many elements p lies behind a multiple of 32 of them.
template <class T> DEVICE u32 skew(const T *p) { return (u64)p / sizeof(T) % 32; }

// RING is the columns of a tile that is filled and emptied at the same time.
#define RING 64

// tiled is where a block moves elements through shared memory: the element in row r and
// column c of its part of the source lies at r * pitch + c, or of a ring, a power of two
// of columns, at r * pitch + c % ring. mask has the bits of c that count.
template <class T> struct tiled { T *at; u32 pitch, mask, rows, columns; };

// fill reads 32 columns of each row, but for the columns that a row needs to begin at a
// multiple of 32 elements.
template <class T> DEVICE void fill(tiled<T> t, const T *x, u64 row, u32 from) {
	for (u32 r = thread() / 32; r < t.rows; r += 8) {
		const T *line = x + r * row;
		u32 c = from + thread() % 32 - skew(line);
		together();
		if (c < t.columns) t.at[r * t.pitch + (c & t.mask)] = line[c];
	}
}

// fill_whole reads rows that follow one another as one. A warp stores the elements of one
// row of the tile at a time, without conflicts of banks where a row ends.
template <class T> DEVICE void fill_whole(tiled<T> t, const T *x) {
	divisor columns = by(t.columns);
	u32 n = t.rows * t.columns, s = skew(x);
	for (u32 k = thread() / 32 * 32; k < n + s; k += 256) {
		u32 i = k + thread() % 32 - s, r = i / columns;
		u32 first = (k < s ? 0 : k - s) / columns, last = (k + 31 - s < n ? k + 31 - s : n - 1) / columns;
		together();
		T v = i < n ? x[i] : T();
		for (u32 now = first; now <= last; now++) {
			together();
			if (i < n && r == now) t.at[r * t.pitch + i - r * t.columns] = v;
		}
	}
}

// empty writes columns of the tile as rows of the target, each as one, or all as one where
// they follow one another.
template <class T> DEVICE void empty(tiled<T> t, T *y, u64 row, bool whole, u32 from, u32 to) {
	divisor rows = by(whole ? t.rows : 2);
	u32 lines = whole ? 1 : to - from, n = whole ? (to - from) * t.rows : t.rows;
	divisor windows = by(n < 2 ? 2 : (n + 62) / 32);
	for (u32 k = thread() / 32; k < lines * windows.n; k += 8) {
		u32 q = k / windows, w = (k - q * windows.n) * 32;
		T *line = y + (from + q) * row;
		u32 s = skew(line), i = w + thread() % 32 - s;
		u32 first = from + q, last = first, c = first, r = i;
		if (whole) {
			first = from + (w < s ? 0 : w - s) / rows, last = from + (w + 31 - s < n ? w + 31 - s : n - 1) / rows;
			c = from + i / rows, r = i - (c - from) * t.rows;
		}
		T v = T();
		for (u32 now = first; now <= last; now++) {
			together();
			if (i < n && c == now) v = t.at[r * t.pitch + (c & t.mask)];
		}
		together();
		if (i < n) line[i] = v;
	}
}

// transpose_any is transpose where rows begin anywhere within a sector. A block moves h
// rows and w columns. Its accesses begin at multiples of 32 elements, so that none touches
// a sector twice. A row that begins in a sector before takes one more: the tile is large,
// and has few rows that are cut.
//
// Where w is all columns and rows follow one another, flat, a block reads its rows as one.
// Otherwise it reads 32 columns at a time, and writes those that all of its rows have:
// what a row lacks of them is up to 31 elements, so that a ring of 64 columns does.
template <class T> DEVICE void transpose_any(tiled<T> t, const T *x, T *y, u32 rows, u32 columns, u32 n1, u32 n2,
	strided from, strided to, u32 h, u32 w, bool flat) {
	u32 across = (columns + w - 1) / w, down = (rows + h - 1) / h;
	u32 z = block() / across / down, r = block() / across % down * h, c = block() % across * w;
	t.rows = h < rows - r ? h : rows - r, t.columns = w < columns - c ? w : columns - c, t.mask = flat ? ~0u : RING - 1;
	x += at(from, z, n1, n2) + r * from.row + c;
	y += at(to, z, n1, n2) + c * to.row + r;
	bool whole = t.rows == rows && to.row == rows && rows > 1;
	u32 steps = flat ? 1 : (t.columns + 62) / 32;
	for (u32 k = 0; k < steps; k++) {
		if (flat) fill_whole(t, x);
		else fill(t, x, from.row, 32 * k);
		barrier();
		u32 begin = k ? 32 * (k - 1) : 0, end = k + 1 < steps ? 32 * k : t.columns;
		if (begin < end) empty(t, y, to.row, whole, begin, end);
		barrier();
	}
}

#define TRANSPOSE_ANY(T, SPACE, NAME) \
	KERNEL THREADS(256) NAME(const T *x, T *y, u32 rows, u32 columns, u32 n1, u32 n2, \
		u64 row, u64 z0, u64 z1, u64 z2, u64 to_row, u64 to_z0, u64 to_z1, u64 to_z2, u32 h, u32 w, u32 pitch, u32 flat) { \
		SHARED T space[SPACE / sizeof(T)]; \
		transpose_any<T>(tiled<T>{space, pitch}, x, y, rows, columns, n1, n2, \
			strided{row, z0, z1, z2}, strided{to_row, to_z0, to_z1, to_z2}, h, w, flat); \
	}
TRANSPOSE_ANY(u8, 49152, transpose_any_b8)
TRANSPOSE_ANY(u16, 34816, transpose_any_b16)
TRANSPOSE_ANY(u32, 34816, transpose_any_b32)
TRANSPOSE_ANY(u64, 34816, transpose_any_b64)

#define TRANSPOSE(T, STEP, NAME) \
	KERNEL THREADS(256) NAME(const T *x, T *y, u32 rows, u32 columns, u32 n1, u32 n2, \
		u64 row, u64 z0, u64 z1, u64 z2, u64 to_row, u64 to_z0, u64 to_z1, u64 to_z2) { \
		SHARED T tile[TILE][STEP]; \
		transpose<T, STEP>(tile, x, y, rows, columns, n1, n2, strided{row, z0, z1, z2}, strided{to_row, to_z0, to_z1, to_z2}); \
	}
TRANSPOSE(u8, TILE + 4, transpose_b8)
TRANSPOSE(u16, TILE + 2, transpose_b16)
TRANSPOSE(u32, TILE + 1, transpose_b32)
TRANSPOSE(u64, TILE + 1, transpose_b64)

// gather: row r of y[o] is row index[r] of x[o], which has so many rows; grid.x is the
// rows of y[o], grid.y is o. An index beyond them leaves the row as it is; failed becomes
// the first such r.
template <class T> DEVICE void gather(const T *x, const int *index, T *y, u32 rows, u32 columns, u32 *failed) {
	u32 r = block();
	x += (u64)block_y() * rows * columns;
	y += (u64)block_y() * blocks() * columns;
	int from = index[r];
	if (from < 0 || from >= rows) {
		if (thread() == 0) __nvvm_atom_min_gen_ui(failed, r);
		return;
	}
	for (u32 i = thread(); i < columns; i += 256) y[(u64)r * columns + i] = x[(u64)from * columns + i];
}

KERNEL THREADS(256) gather_b8(const u8 *x, const int *index, u8 *y, u32 rows, u32 columns, u32 *failed) {
	gather<u8>(x, index, y, rows, columns, failed);
}
KERNEL THREADS(256) gather_b32(const u32 *x, const int *index, u32 *y, u32 rows, u32 columns, u32 *failed) {
	gather<u32>(x, index, y, rows, columns, failed);
}
