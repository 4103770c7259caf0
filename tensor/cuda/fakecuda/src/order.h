// Orders of what may run in any order: blocks, warps and nodes of graphs.
#ifndef ORDER_H
#define ORDER_H
#include <stdint.h>

uint64_t order_seed(void); // FAKECUDA_SEED
// shuffle orders 0 to n-1 by a state; where that is 0 they stay as they are.
void shuffle(int *order, int n, uint64_t *state);

#endif
