// Folds over a row by a block of 256 threads, in an order that depends on the length
// alone: each thread folds every 256th element, then lanes and warps are folded in a tree.
#include "device.h"

#define ROW 256

struct Sum {
	static __attribute__((device)) float zero() { return 0; }
	static __attribute__((device)) float of(float a, float b) { return a + b; }
};

struct Max { // NaN if any is
	static __attribute__((device)) float zero() { return -__builtin_inff(); }
	static __attribute__((device)) float of(float a, float b) { return a != a || a > b ? a : b; }
};

// fold returns the fold of all threads' v in every thread. buffer holds 9 values.
template <class F> DEVICE float fold(float v, float *buffer) {
	for (u32 n = 16; n; n /= 2) v = F::of(v, down(v, n));
	if (thread() % 32 == 0) buffer[thread() / 32] = v;
	barrier();
	if (thread() == 0) {
		float all = buffer[0];
		for (u32 w = 1; w < ROW / 32; w++) all = F::of(all, buffer[w]);
		buffer[8] = all;
	}
	barrier();
	v = buffer[8];
	barrier();
	return v;
}
