// ldmatrix and mma: a warp loads and multiplies matrices whose elements lie in the
// registers of all its lanes. The layouts are those of the PTX manual.
#include "ptx.h"

#include <string.h>

void run_ldmatrix(Warp *w, const Instruction *i) {
	const Operand *to = &i->operand[0];
	uint64_t at[32];
	uint16_t rows[32][8] = {{0}};
	int lanes = to->count * 8;
	uint32_t mask = lanes == 32 ? ~0u : (1u << lanes) - 1;
	addresses(w, i, 1, mask, at);
	LANES(mask) memcpy(rows[lane], locate(w, i, (int)lane, has(i, W_shared) ? A_SHARED : A_GENERIC, at[lane], 16, TOUCH_READ), 16);
	if (has(i, W_shared)) watch_shared(w, mask, at, 16);
	for (int k = 0; k < to->count; k++) {
		uint64_t out[32];
		for (int lane = 0; lane < 32; lane++) {
			int row = lane / 4, column = lane % 4 * 2;
			uint16_t low = has(i, W_trans) ? rows[8 * k + column][row] : rows[8 * k + row][column];
			uint16_t high = has(i, W_trans) ? rows[8 * k + column + 1][row] : rows[8 * k + row][column + 1];
			out[lane] = low | (uint64_t)high << 16;
		}
		put(w, &i->item[to->first + k], ~0u, out);
	}
}

static double half_at(const uint64_t *v, int lane, int part, Type t) { return half_of(v[lane] >> 16 * part & 0xffff, t); }

// half_operands reads A (16 rows) and B (8 columns) of 16 products.
static void half_operands(const uint64_t *a[4], const uint64_t *b[2], Type t, double A[16][16], double B[16][8]) {
	for (int lane = 0; lane < 32; lane++) {
		int g = lane / 4, c = lane % 4 * 2;
		for (int q = 0; q < 4; q++) {
			for (int z = 0; z < 2; z++) A[g + q % 2 * 8][c + q / 2 * 8 + z] = half_at(a[q], lane, z, t);
		}
		for (int q = 0; q < 2; q++) {
			for (int z = 0; z < 2; z++) B[c + q * 8 + z][g] = half_at(b[q], lane, z, t);
		}
	}
}

// tf32_operands reads A and B of 8 products. The low 13 bits of an operand don't count.
static void tf32_operands(const uint64_t *a[4], const uint64_t *b[2], double A[16][16], double B[16][8]) {
	for (int lane = 0; lane < 32; lane++) {
		int g = lane / 4, c = lane % 4;
		for (int q = 0; q < 4; q++) A[g + q % 2 * 8][c + q / 2 * 4] = f32_of(a[q][lane] & ~0x1fffull);
		for (int q = 0; q < 2; q++) B[c + q * 4][g] = f32_of(b[q][lane] & ~0x1fffull);
	}
}

// run_mma sums exact products in a double and rounds once. A GPU rounds more often, in an
// order that the manual leaves open.
void run_mma(Warp *w, const Instruction *i) {
	const uint64_t *a[4], *b[2], *c[4];
	double A[16][16] = {{0}}, B[16][8] = {{0}};
	bool f16 = i->type[0] == T_F16;
	for (int q = 0; q < 4; q++) a[q] = get(w, i, i->operand[1].first + q, ~0u);
	for (int q = 0; q < 2; q++) b[q] = get(w, i, i->operand[2].first + q, ~0u);
	for (int q = 0; q < (f16 ? 2 : 4); q++) c[q] = get(w, i, i->operand[3].first + q, ~0u);
	if (i->type[1] == T_TF32) tf32_operands(a, b, A, B);
	else half_operands(a, b, i->type[1], A, B);
	uint64_t out[4][32] = {{0}};
	for (int lane = 0; lane < 32; lane++) {
		for (int q = 0; q < 4; q++) {
			int row = lane / 4 + q / 2 * 8, column = lane % 4 * 2 + q % 2;
			double sum = f16 ? half_at(c[q / 2], lane, q % 2, T_F16) : f32_of(c[q][lane]);
			for (int k = 0; k < 16; k++) sum += A[row][k] * B[k][column];
			if (f16) out[q / 2][lane] |= round_to(sum, T_F16, W_rn) << 16 * (q % 2);
			else out[q][lane] = f32_bits((float)sum);
		}
	}
	for (int q = 0; q < (f16 ? 2 : 4); q++) put(w, &i->item[i->operand[0].first + q], ~0u, out[q]);
}
