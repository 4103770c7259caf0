// Folds over a row by a block of 256 threads, in an order that depends on the length
// alone: each thread folds every 256th element, then lanes and warps are folded in a tree.
#include "device.h"

#define ROW 256
#define STATIC static __attribute__((device, always_inline))

// Limit has the least and the greatest value of a type.
template <class T> struct Limit;
template <> struct Limit<float> {
	STATIC float least() { return -__builtin_inff(); }
	STATIC float most() { return __builtin_inff(); }
};
template <> struct Limit<double> {
	STATIC double least() { return -__builtin_inf(); }
	STATIC double most() { return __builtin_inf(); }
};
template <> struct Limit<s64> {
	STATIC s64 least() { return -0x7fffffffffffffffll - 1; }
	STATIC s64 most() { return 0x7fffffffffffffffll; }
};

template <class T> struct Sum {
	STATIC T zero() { return 0; }
	STATIC T of(T a, T b) { return a + b; }
};

template <class T> struct Product {
	STATIC T zero() { return 1; }
	STATIC T of(T a, T b) { return a * b; }
};

template <class T> struct Max { // NaN if any is
	STATIC T zero() { return Limit<T>::least(); }
	STATIC T of(T a, T b) { return a != a || a > b ? a : b; }
};

template <class T> struct Min {
	STATIC T zero() { return Limit<T>::most(); }
	STATIC T of(T a, T b) { return a != a || a < b ? a : b; }
};

// fold returns the fold of all threads' v in every thread. buffer holds 9 values.
template <class F, class T> DEVICE T fold(T v, T *buffer) {
	for (u32 n = 16; n; n /= 2) v = F::of(v, down(v, n));
	if (thread() % 32 == 0) buffer[thread() / 32] = v;
	barrier();
	if (thread() == 0) {
		T all = buffer[0];
		for (u32 w = 1; w < ROW / 32; w++) all = F::of(all, buffer[w]);
		buffer[8] = all;
	}
	barrier();
	v = buffer[8];
	barrier();
	return v;
}
