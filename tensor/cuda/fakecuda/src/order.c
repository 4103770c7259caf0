// Orders that the seed gives.
#include "order.h"

#include <stdlib.h>

uint64_t order_seed(void) {
	const char *s = getenv("FAKECUDA_SEED");
	return s ? strtoull(s, NULL, 10) : 0;
}

static uint64_t random_next(uint64_t *state) {
	uint64_t h = *state += 0x9e3779b97f4a7c15ull;
	h = (h ^ h >> 30) * 0xbf58476d1ce4e5b9ull;
	h = (h ^ h >> 27) * 0x94d049bb133111ebull;
	return h ^ h >> 31;
}

void shuffle(int *order, int n, uint64_t *state) {
	for (int k = 0; k < n; k++) order[k] = k;
	for (int k = n - 1; k > 0 && *state; k--) {
		int j = (int)(random_next(state) % (k + 1)), t = order[k];
		order[k] = order[j];
		order[j] = t;
	}
}
