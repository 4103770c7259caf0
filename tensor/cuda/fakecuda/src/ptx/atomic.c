// atom and red: each lane reads, computes and writes in turn, in the order of lanes.
#include "ptx.h"

#include <string.h>

static uint64_t combined(const Instruction *i, Type t, uint64_t old, uint64_t v, uint64_t other) {
	uint64_t a = extend(old, t), b = extend(v, t);
	bool less = is_signed(t) ? (int64_t)b < (int64_t)a : b < a;
	if (has(i, W_add)) return t == T_F32 ? f32_bits(f32_of(old) + f32_of(v)) : t == T_F64 ? f64_bits(f64_of(old) + f64_of(v)) : old + v;
	if (has(i, W_min)) return less ? v : old;
	if (has(i, W_max)) return less ? old : v;
	if (has(i, W_and)) return old & v;
	if (has(i, W_or)) return old | v;
	if (has(i, W_xor)) return old ^ v;
	if (has(i, W_inc)) return a >= b ? 0 : a + 1;
	if (has(i, W_dec)) return a == 0 || a > b ? b : a - 1;
	if (has(i, W_cas)) return a == b ? other : old;
	return v; // exch
}

void run_atomic(Warp *w, const Instruction *i, uint32_t mask) {
	bool returns = i->op == O_atom;
	Type t = i->type[0];
	uint64_t at[32], before[32];
	addresses(w, i, returns, mask, at);
	const uint64_t *v = get(w, i, i->operand[returns + 1].first, mask);
	const uint64_t *other = has(i, W_cas) ? get(w, i, i->operand[3].first, mask) : v;
	LANES(mask) {
		char *p = locate(w, i, lane, space_of(i), at[lane], type_size(t), TOUCH_ATOMIC);
		uint64_t old = 0, new;
		memcpy(&old, p, type_size(t));
		new = combined(i, t, old, v[lane], other[lane]);
		memcpy(p, &new, type_size(t));
		before[lane] = old;
	}
	if (returns) put(w, &i->item[i->operand[0].first], mask, before);
}
