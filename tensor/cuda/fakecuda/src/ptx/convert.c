// cvt: conversions between integers and floats of all sizes.
#include "ptx.h"

#include <fenv.h>
#include <math.h>

// whole rounds a float to a whole number.
static double whole(const Instruction *i, double d) {
	if (has(i, W_rni)) return nearbyint(d);
	if (has(i, W_rzi)) return trunc(d);
	if (has(i, W_rmi)) return floor(d);
	if (has(i, W_rpi)) return ceil(d);
	return d;
}

// integer_of converts a whole number, and gives the nearest of the type for one beyond its
// range. NaN gives 0.
static uint64_t integer_of(double d, Type t) {
	int bits = 8 * type_size(t);
	if (isnan(d)) return 0;
	if (is_signed(t)) {
		if (d <= -ldexp(1, bits - 1)) return (uint64_t)INT64_MIN >> (64 - bits) | ~0ull << (bits - 1);
		if (d >= ldexp(1, bits - 1)) return (1ull << (bits - 1)) - 1;
		return (uint64_t)(int64_t)d;
	}
	if (d <= 0) return 0;
	return d >= ldexp(1, bits) ? narrow(~0ull, type_size(t)) : (uint64_t)d;
}

static uint64_t clamp(uint64_t v, Type from, Type to) {
	double low = is_signed(to) ? -ldexp(1, 8 * type_size(to) - 1) : 0;
	bool negative = is_signed(from) && (int64_t)v < 0;
	uint64_t high = is_signed(to) ? (1ull << (8 * type_size(to) - 1)) - 1 : narrow(~0ull, type_size(to));
	if (negative) return (double)(int64_t)v < low ? (uint64_t)(int64_t)low : v;
	return v > high ? high : v;
}

static Word mode(const Instruction *i) {
	static const Word modes[] = {W_rz, W_rm, W_rp, W_rna};
	for (int k = 0; k < 4; k++) {
		if (has(i, modes[k])) return modes[k];
	}
	return W_rn;
}

// of_integer converts an integer. A double rounds 64 bits of it as the host is set to,
// so that f32 is rounded once.
static uint64_t of_integer(const Instruction *i, uint64_t v, Type from, Type to) {
	rounding(i);
	volatile float f = is_signed(from) ? (float)(int64_t)v : (float)v;
	volatile double d = is_signed(from) ? (double)(int64_t)v : (double)v;
	fesetround(FE_TONEAREST);
	if (to == T_F32) return f32_bits(has(i, W_sat) ? fminf(fmaxf(f, 0), 1) : f);
	if (has(i, W_sat)) d = fmin(fmax(d, 0), 1);
	return round_to(d, to, mode(i));
}

static uint64_t of_float(const Instruction *i, double d, Type from, Type to) {
	if (has(i, W_ftz) && (from == T_F32 || to == T_F32) && fabs(d) < 0x1p-126) d = copysign(0, d);
	d = whole(i, d);
	if (type_class(to) == 'i') return integer_of(d, to);
	if (has(i, W_sat)) d = d > 0 ? fmin(d, 1) : 0;
	if (has(i, W_relu)) d = isnan(d) || d > 0 ? d : 0;
	return round_to(d, to, mode(i));
}

static uint64_t convert(const Instruction *i, uint64_t v) {
	Type to = i->type[0], from = i->type[1];
	if (type_class(from) == 'f') return of_float(i, float_of(v, from), from, to);
	v = extend(v, from);
	if (type_class(to) == 'f') return of_integer(i, v, from, to);
	return extend(has(i, W_sat) ? clamp(v, from, to) : v, to);
}

static void run_pair(Warp *w, const Instruction *i, uint32_t mask) {
	const uint64_t *high = get(w, i, i->operand[1].first, mask), *low = get(w, i, i->operand[2].first, mask);
	Type t = i->type[0] == T_BF16X2 ? T_BF16 : T_F16;
	uint64_t out[32];
	LANES(mask) {
		out[lane] = of_float(i, f32_of(low[lane]), T_F32, t) | of_float(i, f32_of(high[lane]), T_F32, t) << 16;
	}
	put(w, &i->item[i->operand[0].first], mask, out);
}

void run_cvt(Warp *w, const Instruction *i, uint32_t mask) {
	if (i->operands == 3) {
		run_pair(w, i, mask);
		return;
	}
	const uint64_t *a = get(w, i, i->operand[1].first, mask);
	uint64_t out[32];
	LANES(mask) out[lane] = convert(i, a[lane]);
	put(w, &i->item[i->operand[0].first], mask, out);
}
