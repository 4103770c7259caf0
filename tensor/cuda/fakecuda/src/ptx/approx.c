// Approximate instructions. Each result is off by an error that depends on the seed, the
// instruction and the operand, up to the bound that the PTX manual gives. With seed 0 it
// is exact.
#include "ptx.h"

#include <math.h>

// noise returns a number in [-1, 1].
static double noise(uint64_t seed, Opcode op, double x, double y) {
	uint64_t h = seed * 0x9e3779b97f4a7c15ull ^ f64_bits(x) ^ f64_bits(y) * 31 ^ (uint64_t)op << 56;
	h = (h ^ h >> 30) * 0xbf58476d1ce4e5b9ull;
	h = (h ^ h >> 27) * 0x94d049bb133111ebull;
	h ^= h >> 31;
	return (double)(int64_t)h * 0x1p-63;
}

// bound returns the largest error of an instruction whose exact result is r.
static double bound(const Instruction *i, double x, double r) {
	r = fabs(r);
	switch (i->op) {
	case O_ex2: return r * 0x1p-22;
	case O_lg2: return x > 0.5 && x < 2 ? 0x1p-22 : r * 0x1p-22;
	case O_rcp: return r * (i->type[0] == T_F64 ? 0x1p-20 : 0x1p-23);
	case O_sqrt: return r * 0x1p-23;
	case O_rsqrt: return r * 0x1.12p-23;
	case O_sin: case O_cos: return 0x1.6ap-21;
	case O_tanh: return r * 0x1p-11;
	default: return r * 0x1p-23; // div: 2 units in the last place, or more of a small mantissa
	}
}

static double exact(const Instruction *i, double x, double y) {
	switch (i->op) {
	case O_ex2: return exp2(x);
	case O_lg2: return log2(x);
	case O_rcp: return 1 / x;
	case O_sqrt: return sqrt(x);
	case O_rsqrt: return 1 / sqrt(x);
	case O_sin: return sin(x);
	case O_cos: return cos(x);
	case O_tanh: return tanh(x);
	default: return x / y;
	}
}

double approximate(const Instruction *i, double x, double y, uint64_t seed) {
	double r = exact(i, x, y);
	if (!seed || isnan(r) || isinf(r) || r == 0) return r;
	double off = r + bound(i, x, r) * noise(seed, i->op, x, y) / 2; // the other half is for rounding
	return signbit(off) == signbit(r) || i->op == O_lg2 || i->op == O_sin || i->op == O_cos ? off : r;
}
