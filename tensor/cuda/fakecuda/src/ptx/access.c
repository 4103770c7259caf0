// Addresses: where their bytes are, and the loads and stores of them.
#include "ptx.h"

#include <string.h>
#include <sys/mman.h>

Space space_of(const Instruction *i) {
	if (has(i, W_param)) return A_PARAM;
	if (has(i, W_shared)) return A_SHARED;
	if (has(i, W_local)) return A_LOCAL;
	if (has(i, W_global) || has(i, W_const)) return A_GLOBAL;
	return A_GENERIC;
}

static Space resolve(Space s, uint64_t *address) {
	if (s == A_GENERIC) {
		s = *address >> 56 == 1 ? A_SHARED : *address >> 56 == 2 ? A_LOCAL : A_GLOBAL;
		if (s != A_GLOBAL) *address &= (1ull << 56) - 1;
	}
	return s;
}

static View *view(Launch *l, uint64_t address) {
	View *v = &l->views[l->last_view];
	if (l->view_count && address - v->at < v->size) return v;
	for (int k = 0; k < l->view_count; k++) {
		if (address - l->views[k].at < l->views[k].size) return &l->views[l->last_view = k];
	}
	if (l->view_count == (int)(sizeof l->views / sizeof *l->views)) return NULL;
	v = &l->views[l->view_count];
	if (!view_of(address, v)) return NULL;
	v->shades = mmap(NULL, v->size * sizeof(Shade), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (v->shades == MAP_FAILED) v->shades = NULL;
	return &l->views[l->last_view = l->view_count++];
}

static char *global_bytes(Warp *w, const Instruction *i, int lane, uint64_t address, uint64_t n, Touch how, bool watched) {
	int access = how == TOUCH_READ ? 1 : how == TOUCH_WRITE ? 2 : 3;
	View *v = view(w->block->launch, address);
	if (!v) return other_bytes(address, n, access);
	uint64_t at = address - v->at;
	if (n > v->size - at || (v->access & access) != access) return NULL;
	if (v->written) fill(w, i->line, v->written + at, n, how, address);
	if (watched && v->shades) touch(w, lane, i->line, v->shades + at, n, how, false, address);
	return v->bytes + at;
}

static char *param_bytes(Warp *w, int lane, uint64_t address, uint64_t n) {
	const Launch *l = w->block->launch;
	if (address >= FRAME_WINDOW) {
		address -= FRAME_WINDOW;
		return address <= l->module->frame && n <= l->module->frame - address ? w->frame + lane * l->module->frame + address : NULL;
	}
	uint64_t size = l->function->param_bytes;
	return address <= size && n <= size - address ? (char *)l->params + address : NULL;
}

char *locate(Warp *w, const Instruction *i, int lane, Space s, uint64_t address, uint64_t n, Touch how) {
	static const char *const names[] = {"generic", "global", "shared", "local", "param"};
	Block *b = w->block;
	uint64_t given = address;
	bool watched = !has(i, W_volatile) && !has(i, W_relaxed) && !has(i, W_acquire) && !has(i, W_release);
	if (how == TOUCH_ATOMIC) watched = true;
	s = resolve(s, &address);
	if (n & (n - 1) ? address % 4 : address % n) {
		stop(w, i->line, MISALIGNED, "%llu bytes at %#llx, which is not aligned", (unsigned long long)n, (unsigned long long)given);
	}
	char *p = NULL;
	uint64_t local = b->launch->module->local;
	switch (s) {
	case A_SHARED:
		if (address > b->shared_bytes || n > b->shared_bytes - address) break;
		if (watched) touch(w, lane, i->line, b->shades + address, n, how, true, address);
		p = b->shared + address;
		break;
	case A_LOCAL:
		if (address <= local && n <= local - address) p = w->local + lane * local + address;
		break;
	case A_PARAM: p = param_bytes(w, lane, address, n); break;
	default: p = global_bytes(w, i, lane, address, n, how, watched);
	}
	if (!p) {
		stop(w, i->line, ILLEGAL_ADDRESS, "%s of %llu bytes at %#llx of %s memory, thread %d of block %u,%u,%u", how == TOUCH_READ ? "read" : "write",
			(unsigned long long)n, (unsigned long long)given, names[s], w->index * 32 + lane, b->at[0], b->at[1], b->at[2]);
	}
	return p;
}

void addresses(Warp *w, const Instruction *i, int operand, uint32_t mask, uint64_t out[32]) {
	const Operand *o = &i->operand[operand];
	const uint64_t *a = get(w, i, o->first, mask);
	LANES(mask) out[lane] = a[lane] + o->offset;
}

// watch_access counts the warp's access in the report, by the space of each lane.
static void watch_access(Warp *w, Space s, uint32_t mask, const uint64_t at[32], int size) {
	uint32_t global = 0, shared = 0;
	uint64_t plain[32];
	LANES(mask) {
		plain[lane] = at[lane];
		Space is = resolve(s, &plain[lane]);
		if (is == A_GLOBAL) global |= 1u << lane;
		if (is == A_SHARED) shared |= 1u << lane;
	}
	if (global) watch_global(w, global, plain, size);
	if (shared) watch_shared(w, shared, plain, size);
}

void run_ld(Warp *w, const Instruction *i, uint32_t mask) {
	const Operand *to = &i->operand[0];
	uint64_t at[32], value[4][32];
	Type t = i->type[0];
	Space s = space_of(i);
	int size = type_size(t);
	addresses(w, i, 1, mask, at);
	LANES(mask) {
		const char *p = locate(w, i, lane, s, at[lane], (uint64_t)size * to->count, TOUCH_READ);
		for (int k = 0; k < to->count; k++) {
			uint64_t v = 0;
			memcpy(&v, p + k * size, size);
			value[k][lane] = extend(v, t);
		}
	}
	if (s != A_PARAM) watch_access(w, s, mask, at, size * to->count);
	for (int k = 0; k < to->count; k++) put(w, &i->item[to->first + k], mask, value[k]);
}

void run_st(Warp *w, const Instruction *i, uint32_t mask) {
	const Operand *from = &i->operand[1];
	uint64_t at[32];
	const uint64_t *value[4];
	Space s = space_of(i);
	int size = type_size(i->type[0]);
	for (int k = 0; k < from->count; k++) value[k] = get(w, i, from->first + k, mask);
	addresses(w, i, 0, mask, at);
	LANES(mask) {
		char *p = locate(w, i, lane, s, at[lane], (uint64_t)size * from->count, TOUCH_WRITE);
		for (int k = 0; k < from->count; k++) memcpy(p + k * size, &value[k][lane], size);
	}
	if (s != A_PARAM) watch_access(w, s, mask, at, size * from->count);
}
