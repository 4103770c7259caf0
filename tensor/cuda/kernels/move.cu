// Kernels that move elements of 4 bytes, and rows of bytes.
#include "device.h"

#define TILE 32

// transpose_b32: each matrix of y is one of x with rows and columns exchanged; grid.z is
// the matrix. A block of 32 by 8 threads moves a tile of 32 by 32, whose rows are one
// element apart in banks.
KERNEL THREADS(256) transpose_b32(const u32 *x, u32 *y, u32 rows, u32 columns) {
	SHARED u32 tile[TILE][TILE + 1];
	x += (u64)block_z() * rows * columns;
	y += (u64)block_z() * rows * columns;
	u32 r = block_y() * TILE, c = block() * TILE;
	for (u32 k = thread_y(); k < TILE; k += 8) {
		if (r + k < rows && c + thread() < columns) tile[k][thread()] = x[(u64)(r + k) * columns + c + thread()];
	}
	barrier();
	for (u32 k = thread_y(); k < TILE; k += 8) {
		if (c + k < columns && r + thread() < rows) y[(u64)(c + k) * rows + r + thread()] = tile[thread()][k];
	}
}

// swap_b32: y[z][j][i] = x[z][i][j], where an element has inner words. Block i of the
// grid's x and j of its y moves one.
KERNEL THREADS(256) swap_b32(const u32 *x, u32 *y, u32 rows, u32 columns, u32 inner) {
	u64 matrix = (u64)block_z() * rows * columns, i = block(), j = block_y();
	const u32 *from = x + (matrix + i * columns + j) * inner;
	u32 *to = y + (matrix + j * rows + i) * inner;
	for (u32 k = thread(); k < inner; k += 256) to[k] = from[k];
}

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
