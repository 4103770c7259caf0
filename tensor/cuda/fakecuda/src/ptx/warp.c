// A warp: 32 lanes, each with a place in the code of its own. The lanes at the lowest
// place run first, so that those which took a longer way meet the others again.
#include "ptx.h"

#include <limits.h>
#include <string.h>

enum { FUEL = 1 << 28 }; // instructions of a launch; more is taken for a loop without end

static uint32_t ready(const Warp *w) { return w->live & ~w->at_barrier & ~w->at_sync; }

static void set_pc(Warp *w, uint32_t mask, int at) {
	LANES(mask) w->pc[lane] = at;
}

static void run_call(Warp *w, const Instruction *i, uint32_t mask, int at) {
	const Module *m = w->block->launch->module;
	const Function *f = m->functions[i->target];
	uint64_t back[32] = {0};
	LANES(mask) {
		char *frame = w->frame + lane * m->frame;
		for (int k = 0; k < i->arguments; k++) {
			memcpy(frame + f->params[k]->offset, frame + i->item[i->results + k].symbol->offset, f->params[k]->size);
		}
		back[lane] = at + 1;
	}
	put(w, &(Item){.reg = f->back, .type = T_U64}, mask, back);
	set_pc(w, mask, f->begin);
}

static const Function *function_at(const Module *m, int at) {
	for (int k = 0; k < m->function_count; k++) {
		if (at >= m->functions[k]->begin && at < m->functions[k]->end) return m->functions[k];
	}
	return NULL;
}

static void run_ret(Warp *w, uint32_t mask, int at) {
	const Module *m = w->block->launch->module;
	const Function *f = function_at(m, at);
	if (f->entry) {
		w->live &= ~mask;
		return;
	}
	LANES(mask) {
		int back = (int)w->regs[(size_t)f->back * 32 + lane];
		const Instruction *call = &m->code[back - 1];
		char *frame = w->frame + lane * m->frame;
		if (call->results) memcpy(frame + call->item[0].symbol->offset, frame + f->result->offset, f->result->size);
		w->pc[lane] = back;
	}
}

static void run_barrier(Warp *w, const Instruction *i, uint32_t mask) {
	int first = has(i, W_red) ? 1 : 0;
	const uint64_t *id = get(w, i, i->operand[first].first, mask);
	w->barrier = (int)id[__builtin_ctz(mask)];
	w->barrier_threads = 0;
	if (!first && i->operands == 2) w->barrier_threads = (uint32_t)get(w, i, i->operand[1].first, mask)[__builtin_ctz(mask)];
	w->at_barrier |= mask;
}

// source returns the lane that a shuffle reads, or -1 for one outside of its part.
static int source(const Instruction *i, uint32_t lane, uint32_t by, uint32_t c) {
	uint32_t part = c >> 8 & 31, low = lane & part, high = low | (c & 31 & ~part);
	int j = has(i, W_up) ? (int)lane - (int)(by & 31) : has(i, W_down) ? (int)(lane + (by & 31))
	      : has(i, W_bfly) ? (int)(lane ^ (by & 31)) : (int)(low | (by & 31 & ~part));
	if (has(i, W_up)) return j >= (int)low ? j : -1;
	return j <= (int)high ? j : -1;
}

static void run_shfl(Warp *w, const Instruction *i, uint32_t mask) {
	const uint64_t *a = get(w, i, i->operand[1].first, mask), *by = get(w, i, i->operand[2].first, mask);
	const uint64_t *c = get(w, i, i->operand[3].first, mask);
	uint64_t out[32], inside[32];
	LANES(mask) {
		int j = source(i, lane, (uint32_t)by[lane], (uint32_t)c[lane]);
		inside[lane] = j >= 0;
		if (j < 0) j = (int)lane;
		if (!(mask >> j & 1)) stop(w, i->line, LAUNCH_FAILED, "lane %d shuffles from lane %d, which does not take part", (int)lane, j);
		out[lane] = a[j];
	}
	const Operand *to = &i->operand[0];
	put(w, &i->item[to->first], mask, out);
	if (to->count == 2) put(w, &i->item[to->first + 1], mask, inside);
}

static void run_vote(Warp *w, const Instruction *i, uint32_t mask) {
	const Item *p = &i->item[i->operand[1].first];
	const uint64_t *v = get(w, i, i->operand[1].first, mask), *members = get(w, i, i->operand[2].first, mask);
	uint32_t yes = 0;
	uint64_t out[32];
	LANES(mask) yes |= (uint32_t)((v[lane] & 1) != p->inverted) << lane;
	LANES(mask) {
		uint32_t all = (uint32_t)members[lane], of = yes & all;
		out[lane] = has(i, W_ballot) ? of : has(i, W_all) ? of == all : has(i, W_any) ? of != 0 : of == all || !of;
	}
	put(w, &i->item[i->operand[0].first], mask, out);
}

static uint64_t fold(const Instruction *i, uint64_t a, uint64_t b) {
	bool less = is_signed(i->type[0]) ? (int32_t)a < (int32_t)b : (uint32_t)a < (uint32_t)b;
	if (has(i, W_add)) return a + b;
	if (has(i, W_min)) return less ? a : b;
	if (has(i, W_max)) return less ? b : a;
	return has(i, W_and) ? a & b : has(i, W_or) ? a | b : a ^ b;
}

static void run_redux(Warp *w, const Instruction *i, uint32_t mask) {
	const uint64_t *v = get(w, i, i->operand[1].first, mask), *members = get(w, i, i->operand[2].first, mask);
	uint64_t out[32];
	LANES(mask) {
		uint32_t all = (uint32_t)members[lane];
		uint64_t sum = v[__builtin_ctz(all)];
		for (uint32_t rest = all & (all - 1); rest; rest &= rest - 1) sum = fold(i, sum, v[__builtin_ctz(rest)]);
		out[lane] = sum;
	}
	put(w, &i->item[i->operand[0].first], mask, out);
}

static void run_activemask(Warp *w, const Instruction *i, uint32_t mask) {
	uint64_t out[32];
	LANES(mask) out[lane] = mask;
	put(w, &i->item[i->operand[0].first], mask, out);
}

// members returns the item that says which lanes take part, or -1 for all.
static int members(const Instruction *i) {
	switch (i->op) {
	case O_shfl: case O_vote: case O_redux: return i->operand[i->operands - 1].first;
	case O_bar: return i->operand[0].first;
	default: return -1;
	}
}

static bool synchronizes(const Instruction *i) {
	return i->op == O_shfl || i->op == O_vote || i->op == O_redux || i->op == O_ldmatrix || i->op == O_mma ||
	       (i->op == O_bar && has(i, W_warp));
}

static void run_together(Warp *w, const Instruction *i, uint32_t mask) {
	switch (i->op) {
	case O_shfl: run_shfl(w, i, mask); break;
	case O_vote: run_vote(w, i, mask); break;
	case O_redux: run_redux(w, i, mask); break;
	case O_ldmatrix: run_ldmatrix(w, i); break;
	case O_mma: run_mma(w, i); break;
	default: w->phase++; // bar.warp.sync
	}
}

// run_sync runs an instruction that needs several lanes, once all are there that the
// lanes in mask name. The others wait.
static void run_sync(Warp *w, const Instruction *i, uint32_t mask, int at) {
	uint32_t here = mask;
	LANES(w->at_sync) {
		if (w->pc[lane] == at) here |= 1u << lane;
	}
	int item = members(i);
	const uint64_t *named = item < 0 ? NULL : get(w, i, item, here);
	uint32_t complete = 0;
	LANES(here) {
		uint32_t all = named ? (uint32_t)named[lane] : ~0u;
		if (!(all >> lane & 1)) stop(w, i->line, LAUNCH_FAILED, "%s: lane %u is not in its own mask %#x", op_name(i->op), lane, all);
		if (all & ~w->live) stop(w, i->line, LAUNCH_FAILED, "%s names lanes %#x, which have exited or never were", op_name(i->op), all & ~w->live);
		if ((all & here) == all) complete |= 1u << lane;
	}
	if (complete) run_together(w, i, complete);
	w->at_sync = (w->at_sync | here) & ~complete;
	set_pc(w, here, at);
	set_pc(w, complete, at + 1);
}

static void run_plain(Warp *w, const Instruction *i, uint32_t mask) {
	switch (i->op) {
	case O_ld: run_ld(w, i, mask); break;
	case O_st: run_st(w, i, mask); break;
	case O_atom: case O_red: run_atomic(w, i, mask); break;
	case O_cp: run_async(w, i, mask); break;
	case O_cvt: run_cvt(w, i, mask); break;
	case O_activemask: run_activemask(w, i, mask); break;
	case O_membar: case O_fence: break;
	case O_trap: stop(w, i->line, LAUNCH_FAILED, "trap");
	default: run_arithmetic(w, i, mask);
	}
}

static uint32_t guarded(Warp *w, const Instruction *i, uint32_t mask) {
	if (i->guard < 0) return mask;
	if (mask & ~w->known[i->guard]) found(w, i->line, "the predicate of %s was never written", op_name(i->op));
	const uint64_t *p = w->regs + (size_t)i->guard * 32;
	uint32_t out = 0;
	LANES(mask) out |= (uint32_t)((p[lane] & 1) != i->guard_not) << lane;
	return out;
}

// leaves runs an instruction after which lanes may be at different places, and reports
// whether it was one.
static bool leaves(Warp *w, const Instruction *i, uint32_t group, uint32_t mask, int at) {
	bool sync = synchronizes(i);
	switch (i->op) {
	case O_bra: case O_call: case O_ret: case O_exit: case O_barrier: break;
	case O_bar: break;
	default:
		if (!sync) return false;
	}
	set_pc(w, group & ~mask, at + 1);
	if (!mask) return true;
	if (sync) {
		run_sync(w, i, mask, at);
		return true;
	}
	switch (i->op) {
	case O_bra: set_pc(w, mask, i->target); break;
	case O_call: run_call(w, i, mask, at); break;
	case O_ret: run_ret(w, mask, at); break;
	case O_exit: w->live &= ~mask; break;
	default:
		set_pc(w, mask, at);
		run_barrier(w, i, mask);
	}
	return true;
}

// run_group runs the lanes of group, which are at the same place, until they part or
// other lanes are at a lower place or at the same.
static void run_group(Warp *w, uint32_t group, int at, int limit) {
	Launch *l = w->block->launch;
	for (;;) {
		const Instruction *i = &l->module->code[at];
		if (++l->report->instructions > FUEL) stop(w, i->line, LAUNCH_FAILED, "more than %d instructions: a loop without end?", FUEL);
		uint32_t mask = guarded(w, i, group);
		if (leaves(w, i, group, mask, at)) return;
		if (mask) run_plain(w, i, mask);
		if (++at >= limit) break;
	}
	set_pc(w, group, at);
}

void run_warp(Warp *w) {
	const Instruction *code = w->block->launch->module->code;
	for (uint32_t lanes; (lanes = ready(w)) != 0;) {
		int at = INT_MAX, limit = INT_MAX;
		uint32_t group = 0;
		LANES(lanes) {
			if (w->pc[lane] < at) at = w->pc[lane];
		}
		LANES(lanes) {
			if (w->pc[lane] == at) group |= 1u << lane;
			else if (w->pc[lane] < limit) limit = w->pc[lane];
		}
		run_group(w, group, at, limit);
	}
	if (w->at_sync) {
		const Instruction *i = &code[w->pc[__builtin_ctz(w->at_sync)]];
		stop(w, i->line, LAUNCH_FAILED, "%s diverges: lanes %#x wait for lanes that went another way", op_name(i->op), w->at_sync);
	}
	if (!w->at_barrier) return;
	int at = w->pc[__builtin_ctz(w->at_barrier)];
	LANES(w->at_barrier) {
		if (w->pc[lane] != at) stop(w, code[at].line, LAUNCH_FAILED, "barrier diverges: lanes of a warp wait at different instructions");
	}
}
