// cp.async: copies from global to shared memory that happen at the wait for them, as late
// as they may. A kernel that forgets to wait reads memory that nothing wrote.
#include "ptx.h"

#include <stdlib.h>
#include <string.h>

static void start(Warp *w, const Instruction *i, uint32_t mask) {
	uint64_t to[32], from[32], n = i->item[i->operand[2].first].value;
	addresses(w, i, 0, mask, to);
	addresses(w, i, 1, mask, from);
	const uint64_t *real = i->operands == 4 ? get(w, i, i->operand[3].first, mask) : NULL;
	watch_global(w, mask, from, (int)n);
	watch_shared(w, mask, to, (int)n);
	LANES(mask) {
		uint64_t source = real ? (uint32_t)real[lane] : n;
		if (source > n) stop(w, i->line, LAUNCH_FAILED, "cp.async of %llu bytes from %llu", (unsigned long long)n, (unsigned long long)source);
		Copy *c = malloc(sizeof *c);
		*c = (Copy){.lane = (int)lane, .group = w->groups[lane], .to = to[lane], .from = from[lane], .n = source, .zeros = n - source};
		*w->last_copy = c;
		w->last_copy = &c->next;
	}
}

static void carry_out(Warp *w, const Instruction *i, const Copy *c) {
	uint64_t all = c->n + c->zeros;
	char *to = locate(w, i, c->lane, A_SHARED, c->to, all, TOUCH_WRITE);
	memset(to, 0, all);
	for (uint64_t k = 0; k < c->n; k += 4) { // a part may have any number of words
		uint64_t n = c->n - k < 4 ? c->n - k : 4;
		for (uint64_t b = 0; b < n; b++) to[k + b] = *locate(w, i, c->lane, A_GLOBAL, c->from + k + b, 1, TOUCH_READ);
	}
}

// finish_copies carries out the copies of lanes but those of the last pending groups.
void finish_copies(Warp *w, const Instruction *i, uint32_t mask, uint32_t pending) {
	for (Copy **at = &w->copies; *at;) {
		Copy *c = *at;
		if (!(mask >> c->lane & 1) || c->group + pending >= w->groups[c->lane]) {
			at = &c->next;
			continue;
		}
		carry_out(w, i, c);
		*at = c->next;
		free(c);
	}
	w->last_copy = &w->copies;
	while (*w->last_copy) w->last_copy = &(*w->last_copy)->next;
}

void run_async(Warp *w, const Instruction *i, uint32_t mask) {
	if (has(i, W_commit_group)) {
		LANES(mask) w->groups[lane]++;
	} else if (has(i, W_wait_group)) {
		finish_copies(w, i, mask, (uint32_t)i->item[i->operand[0].first].value);
	} else if (has(i, W_wait_all)) {
		LANES(mask) w->groups[lane]++;
		finish_copies(w, i, mask, 0);
	} else {
		start(w, i, mask);
	}
}
