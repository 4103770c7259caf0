// A launch: blocks one after another and warps in turn, in orders that the seed gives.
#include "../order.h"
#include "ptx.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static uint64_t special(const Block *b, const Warp *w, int lane, uint64_t value) {
	const Launch *l = b->launch;
	uint32_t thread = (uint32_t)(w->index * 32 + lane), one = 1u << lane, axis = value & 3;
	switch ((Special)(value >> 2)) {
	case R_tid: return axis == 0 ? thread % l->block[0] : axis == 1 ? thread / l->block[0] % l->block[1] : thread / l->block[0] / l->block[1];
	case R_ntid: return l->block[axis];
	case R_ctaid: return b->at[axis];
	case R_nctaid: return l->grid[axis];
	case R_laneid: return lane;
	case R_warpid: return w->index;
	case R_nwarpid: return b->warp_count;
	case R_nsmid: return 8;
	case R_lanemask_eq: return one;
	case R_lanemask_le: return one | (one - 1);
	case R_lanemask_lt: return one - 1;
	case R_lanemask_ge: return ~(one - 1);
	case R_lanemask_gt: return ~(one | (one - 1));
	case R_dynamic_smem_size: return l->shared;
	default: return 0; // smid
	}
}

static void set_constants(const Block *b, Warp *w) {
	const Module *m = b->launch->module;
	uint64_t dynamic = (b->launch->function->shared + 15) / 16 * 16;
	for (int k = 0; k < m->constant_count; k++) {
		const Constant *c = &m->constants[k];
		w->known[c->reg] = ~0u;
		for (int lane = 0; lane < 32; lane++) {
			uint64_t v = c->value;
			if (c->kind == C_DYNAMIC) v += dynamic;
			if (c->kind == C_GLOBAL) v += m->global_at;
			if (c->kind == C_SPECIAL) v = special(b, w, lane, v);
			w->regs[(size_t)c->reg * 32 + lane] = v;
		}
	}
}

static void forget_copies(Warp *w) {
	while (w->copies) {
		Copy *c = w->copies;
		w->copies = c->next;
		free(c);
	}
	w->last_copy = &w->copies;
}

static void begin_warp(Block *b, Warp *w) {
	const Launch *l = b->launch;
	int lanes = b->threads - w->index * 32;
	w->live = lanes >= 32 ? ~0u : (1u << lanes) - 1;
	w->at_barrier = w->at_sync = w->phase = 0;
	forget_copies(w);
	for (int lane = 0; lane < 32; lane++) {
		w->pc[lane] = l->function->begin;
		w->groups[lane] = 0;
	}
	memset(w->known, 0, l->module->registers * sizeof *w->known);
	set_constants(b, w);
}

// reduced computes what bar.red gives all threads of the block.
static uint64_t reduced(Block *b, const Instruction *i) {
	uint64_t yes = 0, all = 0;
	for (int k = 0; k < b->warp_count; k++) {
		Warp *w = &b->warps[k];
		if (!w->at_barrier) continue;
		const Instruction *own = &b->launch->module->code[w->pc[__builtin_ctz(w->at_barrier)]];
		if (!has(own, W_red)) stop(w, own->line, LAUNCH_FAILED, "threads wait at different kinds of barriers");
		const Item *p = &own->item[own->operand[2].first];
		const uint64_t *v = get(w, own, own->operand[2].first, w->at_barrier);
		LANES(w->at_barrier) {
			yes += (v[lane] & 1) != p->inverted;
			all++;
		}
	}
	return has(i, W_popc) ? yes : has(i, W_and) ? yes == all : yes != 0;
}

// open_barrier lets the warps go on that wait at a barrier with that number.
static void open_barrier(Block *b, int number) {
	uint64_t value[32];
	bool computed = false;
	for (int k = 0; k < b->warp_count; k++) {
		Warp *w = &b->warps[k];
		if (!w->at_barrier || w->barrier != number) continue;
		int at = w->pc[__builtin_ctz(w->at_barrier)];
		const Instruction *i = &b->launch->module->code[at];
		if (has(i, W_red)) {
			if (!computed) {
				uint64_t v = reduced(b, i);
				for (int lane = 0; lane < 32; lane++) value[lane] = v;
			}
			computed = true;
			put(w, &i->item[i->operand[0].first], w->at_barrier, value);
		}
	}
	for (int k = 0; k < b->warp_count; k++) {
		Warp *w = &b->warps[k];
		if (!w->at_barrier || w->barrier != number) continue;
		LANES(w->at_barrier) w->pc[lane]++;
		w->at_barrier = 0;
	}
	b->phase++;
}

// pass opens a barrier whose threads are all there, and reports whether there was one. A
// barrier with a number of threads waits for so many, one without for all that live.
static bool pass(Block *b) {
	for (int k = 0; k < b->warp_count; k++) {
		Warp *w = &b->warps[k];
		if (!w->at_barrier) continue;
		uint32_t there = 0, live = 0;
		for (int j = 0; j < b->warp_count; j++) {
			live += __builtin_popcount(b->warps[j].live);
			if (b->warps[j].barrier == w->barrier) there += __builtin_popcount(b->warps[j].at_barrier);
		}
		if (there == (w->barrier_threads ? w->barrier_threads : live)) {
			open_barrier(b, w->barrier);
			return true;
		}
	}
	return false;
}

static void run_block(Block *b, uint64_t *state) {
	int order[32];
	memset(b->shared, 0xcd, b->shared_bytes);
	memset(b->shades, 0, b->shared_bytes * sizeof(Shade));
	b->first_phase = ++b->phase;
	for (int k = 0; k < b->warp_count; k++) begin_warp(b, &b->warps[k]);
	for (;;) {
		uint32_t live = 0;
		shuffle(order, b->warp_count, state);
		for (int k = 0; k < b->warp_count; k++) {
			run_warp(&b->warps[order[k]]);
			live |= b->warps[order[k]].live;
		}
		if (!live) return;
		if (!pass(b)) {
			Warp *w = &b->warps[0];
			while (!w->at_barrier) w++;
			int at = w->pc[__builtin_ctz(w->at_barrier)];
			stop(w, b->launch->module->code[at].line, LAUNCH_FAILED, "barrier diverges: other threads never come");
		}
	}
}

static void make_warps(Block *b) {
	const Module *m = b->launch->module;
	b->warps = calloc(b->warp_count, sizeof *b->warps);
	for (int k = 0; k < b->warp_count; k++) {
		Warp *w = &b->warps[k];
		*w = (Warp){.block = b, .index = k};
		w->regs = calloc((size_t)m->registers * 32 + 1, sizeof *w->regs);
		w->known = calloc(m->registers + 1, sizeof *w->known);
		w->frame = calloc(32, m->frame + 1);
		w->local = calloc(32, m->local + 1);
		w->last_copy = &w->copies;
	}
}

static void free_all(Launch *l, Block *b, int *order) {
	for (int k = 0; k < b->warp_count; k++) {
		Warp *w = &b->warps[k];
		forget_copies(w);
		free(w->regs);
		free(w->known);
		free(w->frame);
		free(w->local);
	}
	for (int k = 0; k < l->view_count; k++) {
		if (l->views[k].shades) munmap(l->views[k].shades, l->views[k].size * sizeof(Shade));
	}
	free(b->warps);
	free(b->shared);
	free(b->shades);
	free(b);
	free(order);
}

int run(Launch *l) {
	Block *b = calloc(1, sizeof *b);
	uint64_t state = l->seed;
	int blocks = (int)(l->grid[0] * l->grid[1] * l->grid[2]);
	int *order = malloc(blocks * sizeof *order);
	*b = (Block){.launch = l, .threads = (int)(l->block[0] * l->block[1] * l->block[2])};
	b->warp_count = (b->threads + 31) / 32;
	b->shared_bytes = l->shared ? (l->function->shared + 15) / 16 * 16 + l->shared : l->function->shared;
	b->shared = malloc(b->shared_bytes + 1);
	b->shades = malloc((b->shared_bytes + 1) * sizeof(Shade));
	make_warps(b);
	shuffle(order, blocks, &state);
	if (!setjmp(l->stop)) {
		for (int k = 0; k < blocks; k++) {
			uint32_t n = (uint32_t)order[k];
			b->at[0] = n % l->grid[0];
			b->at[1] = n / l->grid[0] % l->grid[1];
			b->at[2] = n / l->grid[0] / l->grid[1];
			run_block(b, &state);
		}
	}
	free_all(l, b, order);
	return l->result ? l->result : l->report->found ? LAUNCH_FAILED : 0;
}
