// Formats of floats and integers, and rounding.
#include "ptx.h"

#include <fenv.h>
#include <math.h>
#include <string.h>

float f32_of(uint64_t bits) {
	uint32_t x = (uint32_t)bits;
	float f;
	memcpy(&f, &x, 4);
	return f;
}

uint64_t f32_bits(float f) {
	uint32_t x;
	if (isnan(f)) return 0x7fffffff;
	memcpy(&x, &f, 4);
	return x;
}

double f64_of(uint64_t bits) {
	double d;
	memcpy(&d, &bits, 8);
	return d;
}

uint64_t f64_bits(double d) {
	uint64_t x;
	memcpy(&x, &d, 8);
	return x;
}

double half_of(uint64_t bits, Type t) {
	if (t == T_BF16) return f32_of(bits << 16);
	int exponent = bits >> 10 & 31, fraction = bits & 1023;
	double d = exponent == 31 ? (fraction ? NAN : INFINITY)
	         : exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24);
	return bits & 0x8000 ? -d : d;
}

double float_of(uint64_t bits, Type t) {
	switch (t) {
	case T_F16: case T_BF16: return half_of(bits, t);
	case T_F64: return f64_of(bits);
	default: return f32_of(bits);
	}
}

// round_half rounds to a format with that many bits of fraction and exponent.
static uint64_t round_half(double d, int fraction, int exponent, Word mode) {
	uint64_t sign = signbit(d) ? 1ull << (fraction + exponent) : 0;
	int bias = (1 << (exponent - 1)) - 1;
	uint64_t infinity = ((1ull << exponent) - 1) << fraction;
	d = fabs(d);
	if (isnan(d)) return (1ull << (fraction + exponent)) - 1;
	if (isinf(d)) return sign | infinity;
	if (d == 0) return sign;
	int e = ilogb(d);
	if (e < 1 - bias) e = 1 - bias;
	double scaled = ldexp(d, fraction - e);
	bool up = (mode == W_rp && !sign) || (mode == W_rm && sign);
	double n = mode == W_rn || !mode ? nearbyint(scaled) : up ? ceil(scaled) : floor(scaled);
	if (mode == W_rna) n = floor(scaled + 0.5);
	d = ldexp(n, e - fraction);
	if (d >= ldexp(1, bias + 1)) return sign | (mode == W_rz || (mode != W_rn && mode && mode != W_rna && !up) ? infinity - 1 : infinity);
	if (n < ldexp(1, fraction)) return sign | (uint64_t)n; // subnormal or zero
	e = ilogb(d);
	return sign | (uint64_t)(e + bias) << fraction | ((uint64_t)ldexp(d, fraction - e) & ((1ull << fraction) - 1));
}

static const struct {
	Word word;
	int mode;
} modes[] = {{W_rz, FE_TOWARDZERO}, {W_rm, FE_DOWNWARD}, {W_rp, FE_UPWARD}};

static int mode_of(Word w) {
	for (int k = 0; k < 3; k++) {
		if (modes[k].word == w) return modes[k].mode;
	}
	return FE_TONEAREST;
}

uint64_t round_to(double d, Type t, Word mode) {
	switch (t) {
	case T_F64: return f64_bits(d);
	case T_F16: return round_half(d, 10, 5, mode);
	case T_BF16: return round_half(d, 7, 8, mode);
	case T_TF32: return isnan(d) ? 0x7fffffff : round_half(d, 10, 8, mode) << 13;
	default: break;
	}
	fesetround(mode_of(mode));
	volatile float f = (float)d;
	fesetround(FE_TONEAREST);
	return f32_bits(f);
}

// rounding sets the rounding of the host to that of an instruction.
void rounding(const Instruction *i) {
	fesetround(has(i, W_rz) ? FE_TOWARDZERO : has(i, W_rm) ? FE_DOWNWARD : has(i, W_rp) ? FE_UPWARD : FE_TONEAREST);
}

float flush(float f) { return fabsf(f) < 0x1p-126f ? copysignf(0, f) : f; }

uint64_t narrow(uint64_t bits, int size) { return size == 8 ? bits : bits & ((1ull << 8 * size) - 1); }

uint64_t extend(uint64_t bits, Type t) {
	if (!is_signed(t)) return narrow(bits, type_size(t));
	int shift = 64 - 8 * type_size(t);
	return (uint64_t)((int64_t)(bits << shift) >> shift);
}
