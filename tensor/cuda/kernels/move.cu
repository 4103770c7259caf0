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
