// Arithmetic: the instructions that read and write registers alone, except cvt.
#include "ptx.h"

#include <fenv.h>
#include <math.h>
#include <string.h>

const uint64_t *get(Warp *w, const Instruction *i, int item, uint32_t mask) {
	int reg = i->item[item].reg;
	if (mask & ~w->known[reg]) {
		found(w, i->line, "%s reads a register that nothing wrote", op_name(i->op));
		w->known[reg] |= mask; // one report of it is enough
	}
	return w->regs + (size_t)reg * 32;
}

void put(Warp *w, const Item *to, uint32_t mask, const uint64_t value[32]) {
	if (to->kind == SINK) return;
	uint64_t *r = w->regs + (size_t)to->reg * 32;
	w->known[to->reg] |= mask;
	switch (type_size(to->type)) {
	case 8: LANES(mask) r[lane] = value[lane]; break;
	case 4: LANES(mask) r[lane] = (uint32_t)value[lane]; break;
	case 2: LANES(mask) r[lane] = (uint16_t)value[lane]; break;
	default: LANES(mask) r[lane] = value[lane] & 1;
	}
}

static uint64_t divide(Type t, uint64_t a, uint64_t b, bool remainder) {
	if (!b) return remainder ? a : ~0ull;
	if (!is_signed(t)) return remainder ? a % b : a / b;
	if ((int64_t)b == -1) return remainder ? 0 : -a;
	return remainder ? (uint64_t)((int64_t)a % (int64_t)b) : (uint64_t)((int64_t)a / (int64_t)b);
}

static uint64_t high(Type t, uint64_t a, uint64_t b) {
	int bits = 8 * type_size(t);
	if (is_signed(t)) return (uint64_t)((__int128)(int64_t)a * (int64_t)b >> bits);
	return (uint64_t)((unsigned __int128)a * b >> bits);
}

static uint64_t saturated(int64_t v) { return v > INT32_MAX ? INT32_MAX : v < INT32_MIN ? (uint64_t)(int64_t)INT32_MIN : (uint64_t)v; }

static uint64_t extract(Type t, uint64_t a, uint64_t at, uint64_t n) {
	uint64_t bits = 8 * type_size(t), v = 0;
	at &= 255;
	n &= 255;
	uint64_t top = at + n ? (at + n - 1 < bits - 1 ? at + n - 1 : bits - 1) : 0;
	uint64_t sign = is_signed(t) && n ? a >> top & 1 : 0;
	for (uint64_t k = 0; k < bits; k++) v |= (k < n && at + k < bits ? a >> (at + k) & 1 : sign) << k;
	return v;
}

static uint64_t insert(Type t, uint64_t a, uint64_t b, uint64_t at, uint64_t n) {
	uint64_t bits = 8 * type_size(t);
	at &= 255;
	n &= 255;
	for (uint64_t k = 0; k < n && at + k < bits; k++) b = (b & ~(1ull << (at + k))) | (a >> k & 1) << (at + k);
	return b;
}

static uint64_t permute(uint64_t a, uint64_t b, uint64_t selector) {
	uint64_t all = (uint32_t)a | b << 32, v = 0;
	for (int k = 0; k < 4; k++) {
		uint64_t s = selector >> 4 * k & 15, byte = all >> 8 * (s & 7) & 255;
		v |= (s & 8 ? (byte & 128 ? 255 : 0) : byte) << 8 * k;
	}
	return v;
}

static uint64_t lookup3(uint64_t a, uint64_t b, uint64_t c, uint64_t table) {
	uint64_t v = 0;
	for (int k = 0; k < 32; k++) v |= (table >> ((a >> k & 1) << 2 | (b >> k & 1) << 1 | (c >> k & 1)) & 1) << k;
	return v;
}

static uint64_t reversed(uint64_t a, int bits) {
	uint64_t v = 0;
	for (int k = 0; k < bits; k++) v |= (a >> k & 1) << (bits - 1 - k);
	return v;
}

static uint64_t funnel(const Instruction *i, uint64_t a, uint64_t b, uint64_t n) {
	n = has(i, W_wrap) ? n & 31 : n > 32 ? 32 : n;
	uint64_t both = (uint32_t)a | (uint64_t)(uint32_t)b << 32;
	return has(i, W_l) ? n == 32 ? a : both << n >> 32 : n == 64 ? 0 : both >> n;
}

static uint64_t shifted(const Instruction *i, Type t, uint64_t a, uint64_t n) {
	uint64_t bits = 8 * type_size(t);
	n = (uint32_t)n;
	if (i->op == O_shl) return n >= bits ? 0 : a << n;
	if (is_signed(t)) return (uint64_t)((int64_t)a >> (n >= bits ? bits - 1 : n));
	return n >= bits ? 0 : a >> n;
}

// integer is one lane of an instruction on integers and bits, extended to 64 bits.
static uint64_t integer(const Instruction *i, Type t, uint64_t a, uint64_t b, uint64_t c, uint64_t d) {
	bool less = is_signed(t) ? (int64_t)a < (int64_t)b : a < b;
	switch (i->op) {
	case O_add: return has(i, W_sat) ? saturated((int64_t)(a + b)) : a + b;
	case O_sub: return has(i, W_sat) ? saturated((int64_t)(a - b)) : a - b;
	case O_mul: return has(i, W_hi) ? high(t, a, b) : a * b;
	case O_mad:
		if (has(i, W_sat)) return saturated((int64_t)(high(t, a, b) + c));
		return (has(i, W_hi) ? high(t, a, b) : a * b) + c;
	case O_div: return divide(t, a, b, false);
	case O_rem: return divide(t, a, b, true);
	case O_abs: return (int64_t)a < 0 ? -a : a;
	case O_neg: return -a;
	case O_min: return less ? a : b;
	case O_max: return less ? b : a;
	case O_popc: return __builtin_popcountll(a);
	case O_clz: return a ? __builtin_clzll(a) - (64 - 8 * type_size(t)) : 8 * type_size(t);
	case O_brev: return reversed(a, 8 * type_size(t));
	case O_bfe: return extract(t, a, b, c);
	case O_bfi: return insert(t, a, b, c, d);
	case O_prmt: return permute(a, b, c);
	case O_and: return a & b;
	case O_or: return a | b;
	case O_xor: return a ^ b;
	case O_not: return ~a;
	case O_shl: case O_shr: return shifted(i, t, a, b);
	case O_shf: return funnel(i, a, b, c);
	default: return lookup3(a, b, c, d);
	}
}

static float smaller(float a, float b) { return a == b ? (signbit(a) ? a : b) : isnan(a) ? b : isnan(b) || a < b ? a : b; }

// extreme is min and max. A zero with a sign is below one without.
static double extreme(const Instruction *i, double a, double b) {
	if (has(i, W_NaN) && (isnan(a) || isnan(b))) return NAN;
	if (isnan(a) || isnan(b)) return isnan(a) ? b : a;
	bool less = a == b ? signbit(a) && !signbit(b) : a < b;
	return less == (i->op == O_min) ? a : b;
}

// single is one lane of an instruction on f32, rounded as the host is set to round.
static float single(const Instruction *i, float a, float b, float c, uint64_t seed) {
	switch (i->op) {
	case O_add: return a + b;
	case O_sub: return a - b;
	case O_mul: return a * b;
	case O_mad: case O_fma: return fmaf(a, b, c);
	case O_min: case O_max: return (float)extreme(i, a, b);
	case O_abs: return fabsf(a);
	case O_neg: return -a;
	case O_copysign: return copysignf(b, a);
	default: break;
	}
	if (i->op == O_div && has(i, W_approx) && fabsf(b) > 0x1p126f && !isinf(b)) return isinf(a) ? NAN : copysignf(0, a) * copysignf(1, b);
	if (!has(i, W_approx) && !has(i, W_full)) return i->op == O_div ? a / b : i->op == O_rcp ? 1 / a : sqrtf(a);
	return (float)approximate(i, a, b, seed);
}

static uint64_t lane_f32(const Instruction *i, uint64_t a, uint64_t b, uint64_t c, uint64_t seed) {
	float x = f32_of(a), y = f32_of(b), z = f32_of(c);
	bool ftz = has(i, W_ftz);
	if (ftz) x = flush(x), y = flush(y), z = flush(z);
	float r = single(i, x, y, z, seed);
	if (ftz) r = flush(r);
	if (has(i, W_sat)) r = r > 0 ? smaller(r, 1) : 0;
	if (i->op == O_neg || i->op == O_abs || i->op == O_copysign) { // these keep the bits of a NaN
		uint32_t bits;
		memcpy(&bits, &r, 4);
		return bits;
	}
	return f32_bits(r);
}

static uint64_t lane_f64(const Instruction *i, uint64_t a, uint64_t b, uint64_t c, uint64_t seed) {
	double x = f64_of(a), y = f64_of(b), z = f64_of(c);
	switch (i->op) {
	case O_add: return f64_bits(x + y);
	case O_sub: return f64_bits(x - y);
	case O_mul: return f64_bits(x * y);
	case O_mad: case O_fma: return f64_bits(fma(x, y, z));
	case O_min: case O_max: return f64_bits(extreme(i, x, y));
	case O_abs: return a & ~(1ull << 63);
	case O_neg: return a ^ 1ull << 63;
	case O_copysign: return f64_bits(copysign(y, x));
	case O_div: return f64_bits(x / y);
	default: break;
	}
	if (has(i, W_approx)) return f64_bits(approximate(i, x, y, seed));
	return f64_bits(i->op == O_rcp ? 1 / x : sqrt(x));
}

// lane_half is one lane of an instruction on f16 or bf16. Sums and products of two such
// numbers are exact in a double, and fma rounds once.
static uint64_t lane_half(const Instruction *i, Type t, uint64_t a, uint64_t b, uint64_t c) {
	if (i->op == O_neg) return (a ^ 0x8000) & 0xffff;
	if (i->op == O_abs) return a & 0x7fff;
	double x = half_of(a & 0xffff, t), y = half_of(b & 0xffff, t), z = half_of(c & 0xffff, t), r;
	switch (i->op) {
	case O_add: r = x + y; break;
	case O_sub: r = x - y; break;
	case O_mul: r = x * y; break;
	case O_fma: r = fma(x, y, z); break;
	default: r = extreme(i, x, y);
	}
	if (has(i, W_ftz) && fabs(r) < 0x1p-14) r = copysign(0, r);
	if (has(i, W_sat)) r = r > 0 ? fmin(r, 1) : 0;
	if (has(i, W_relu)) r = isnan(r) || r > 0 ? r : 0;
	return round_to(r, t, W_rn);
}

static uint64_t lane_pair(const Instruction *i, Type t, uint64_t a, uint64_t b, uint64_t c) {
	return lane_half(i, t, a, b, c) | lane_half(i, t, a >> 16, b >> 16, c >> 16) << 16;
}

static bool ordered(const Instruction *i, bool less, bool equal) {
	if (has(i, W_eq) || has(i, W_equ)) return equal;
	if (has(i, W_ne) || has(i, W_neu)) return !equal;
	if (has(i, W_lt) || has(i, W_lo) || has(i, W_ltu)) return less;
	if (has(i, W_le) || has(i, W_ls) || has(i, W_leu)) return less || equal;
	if (has(i, W_gt) || has(i, W_hi) || has(i, W_gtu)) return !less && !equal;
	return !less;
}

bool compare(const Instruction *i, uint64_t a, uint64_t b) {
	Type t = i->type[0];
	if (type_class(t) != 'f') {
		a = extend(a, t);
		b = extend(b, t);
		return ordered(i, is_signed(t) ? (int64_t)a < (int64_t)b : a < b, a == b);
	}
	double x = float_of(a, t), y = float_of(b, t);
	if (has(i, W_ftz)) x = flush((float)x), y = flush((float)y);
	bool nan = isnan(x) || isnan(y);
	if (has(i, W_num) || has(i, W_nan)) return nan == has(i, W_nan);
	if (nan) return has(i, W_equ) || has(i, W_neu) || has(i, W_ltu) || has(i, W_leu) || has(i, W_gtu) || has(i, W_geu);
	return ordered(i, x < y, x == y);
}

static void run_setp(Warp *w, const Instruction *i, uint32_t mask) {
	const Operand *to = &i->operand[0];
	const uint64_t *a = get(w, i, i->operand[1].first, mask), *b = get(w, i, i->operand[2].first, mask);
	const uint64_t *c = i->operands == 4 ? get(w, i, i->operand[3].first, mask) : NULL;
	bool inverted = c && i->item[i->operand[3].first].inverted;
	uint64_t yes[32], no[32];
	LANES(mask) {
		bool r = compare(i, a[lane], b[lane]), n = !r;
		if (c) {
			bool p = (c[lane] & 1) != inverted;
			r = has(i, W_and) ? r && p : has(i, W_or) ? r || p : r != p;
			n = has(i, W_and) ? n && p : has(i, W_or) ? n || p : n != p;
		}
		yes[lane] = r;
		no[lane] = n;
	}
	put(w, &i->item[to->first], mask, yes);
	if (to->count == 2) put(w, &i->item[to->first + 1], mask, no);
}

static void run_selp(Warp *w, const Instruction *i, uint32_t mask) {
	const Item *p = &i->item[i->operand[3].first];
	const uint64_t *c = get(w, i, i->operand[3].first, mask);
	uint32_t first = 0;
	LANES(mask) first |= (uint32_t)((c[lane] & 1) != p->inverted) << lane;
	const uint64_t *a = get(w, i, i->operand[1].first, mask & first), *b = get(w, i, i->operand[2].first, mask & ~first);
	uint64_t out[32];
	LANES(mask) out[lane] = first >> lane & 1 ? a[lane] : b[lane];
	put(w, &i->item[i->operand[0].first], mask, out);
}

static void run_testp(Warp *w, const Instruction *i, uint32_t mask) {
	const uint64_t *a = get(w, i, i->operand[1].first, mask);
	uint64_t out[32];
	LANES(mask) {
		int c = i->type[0] == T_F32 ? fpclassify(f32_of(a[lane])) : fpclassify(f64_of(a[lane]));
		out[lane] = has(i, W_finite) ? c != FP_NAN && c != FP_INFINITE : has(i, W_infinite) ? c == FP_INFINITE
		          : has(i, W_number) ? c != FP_NAN : has(i, W_notanumber) ? c == FP_NAN
		          : has(i, W_normal) ? c == FP_NORMAL : c == FP_SUBNORMAL;
	}
	put(w, &i->item[i->operand[0].first], mask, out);
}

// run_mov also packs the parts of a vector into a register, and unpacks them.
static void run_mov(Warp *w, const Instruction *i, uint32_t mask) {
	const Operand *to = &i->operand[0], *from = &i->operand[1];
	int bits = 8 * type_size(i->type[0]) / (to->count > 1 ? to->count : from->count);
	uint64_t out[32] = {0};
	if (to->count > 1) {
		const uint64_t *a = get(w, i, from->first, mask);
		for (int k = 0; k < to->count; k++) {
			LANES(mask) out[lane] = a[lane] >> k * bits;
			put(w, &i->item[to->first + k], mask, out);
		}
		return;
	}
	for (int k = 0; k < from->count; k++) {
		const uint64_t *a = get(w, i, from->first + k, mask);
		LANES(mask) out[lane] |= a[lane] << k * bits;
	}
	put(w, &i->item[to->first], mask, out);
}

// run_cvta converts addresses of shared and local memory to generic ones, and back.
static void run_cvta(Warp *w, const Instruction *i, uint32_t mask) {
	uint64_t window = has(i, W_shared) ? SHARED_WINDOW : has(i, W_local) ? LOCAL_WINDOW : 0, out[32];
	const uint64_t *a = get(w, i, i->operand[1].first, mask);
	LANES(mask) out[lane] = has(i, W_to) ? a[lane] - window : a[lane] + window;
	put(w, &i->item[i->operand[0].first], mask, out);
}

static bool low_bits_suffice(const Instruction *i) {
	switch (i->op) {
	case O_and: case O_or: case O_xor: case O_not: return true;
	case O_add: case O_sub: return !has(i, W_sat);
	case O_mul: case O_mad: return has(i, W_lo);
	default: return false;
	}
}

static void run_integer(Warp *w, const Instruction *i, uint32_t mask, const uint64_t *v[4], uint64_t out[32]) {
	Type t = i->type[0];
	if (low_bits_suffice(i)) {
		LANES(mask) out[lane] = integer(i, T_U64, v[0][lane], v[1][lane], v[2][lane], 0);
		return;
	}
	(void)w;
	LANES(mask) {
		out[lane] = integer(i, t, extend(v[0][lane], t), i->op == O_shl || i->op == O_shr || i->op == O_bfe ? v[1][lane] : extend(v[1][lane], t),
			v[2][lane], v[3][lane]);
	}
}

// run_values runs an instruction that makes one value of up to 4 others.
static void run_values(Warp *w, const Instruction *i, uint32_t mask) {
	static const uint64_t none[32];
	const uint64_t *v[4] = {none, none, none, none};
	uint64_t out[32], seed = w->block->launch->seed;
	for (int k = 1; k < i->operands; k++) v[k - 1] = get(w, i, i->operand[k].first, mask);
	Type t = i->type[0];
	rounding(i);
	switch (t) {
	case T_F32: LANES(mask) out[lane] = lane_f32(i, v[0][lane], v[1][lane], v[2][lane], seed); break;
	case T_F64: LANES(mask) out[lane] = lane_f64(i, v[0][lane], v[1][lane], v[2][lane], seed); break;
	case T_F16: case T_BF16: LANES(mask) out[lane] = lane_half(i, t, v[0][lane], v[1][lane], v[2][lane]); break;
	case T_F16X2: LANES(mask) out[lane] = lane_pair(i, T_F16, v[0][lane], v[1][lane], v[2][lane]); break;
	case T_BF16X2: LANES(mask) out[lane] = lane_pair(i, T_BF16, v[0][lane], v[1][lane], v[2][lane]); break;
	default: run_integer(w, i, mask, v, out);
	}
	fesetround(FE_TONEAREST);
	put(w, &i->item[i->operand[0].first], mask, out);
}

void run_arithmetic(Warp *w, const Instruction *i, uint32_t mask) {
	switch (i->op) {
	case O_setp: run_setp(w, i, mask); break;
	case O_selp: run_selp(w, i, mask); break;
	case O_testp: run_testp(w, i, mask); break;
	case O_mov: run_mov(w, i, mask); break;
	case O_cvta: run_cvta(w, i, mask); break;
	default: run_values(w, i, mask);
	}
}
