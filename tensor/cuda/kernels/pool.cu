// Pools of planes.
#include "device.h"

// ROOM is THREADS without a full multiprocessor, for which the assembler would spill
// registers.
#define ROOM(n) __attribute__((launch_bounds(n, 1)))

// Pool is the geometry: planes of h by w, windows of kh by kw that are sh and sw apart
// and begin ph and pw outside, and planes of oh by ow that come of them.
struct Pool {
	int h, w, oh, ow, kh, kw, sh, sw, ph, pw;
};
#define POOL int h, int w, int oh, int ow, int kh, int kw, int sh, int sw, int ph, int pw
#define THE_POOL Pool{h, w, oh, ow, kh, kw, sh, sw, ph, pw}

struct Window {
	int y0, y1, x0, x1;
};

DEVICE int within(int v, int end) { return v < 0 ? 0 : v > end ? end : v; }

DEVICE Window window(const Pool &p, int at) {
	int y = at / p.ow * p.sh - p.ph, x = at % p.ow * p.sw - p.pw;
	return {within(y, p.h), within(y + p.kh, p.h), within(x, p.w), within(x + p.kw, p.w)};
}

// largest returns the place of a window's first largest element or NaN; -1 of none.
template <class T> DEVICE int largest(const T *plane, const Pool &p, const Window &v) {
	int where = -1;
	T best = 0;
	for (int i = v.y0; i < v.y1; i++) {
		for (int j = v.x0; j < v.x1; j++) {
			T e = plane[i * p.w + j];
			if (where < 0 || e > best || (e != e && best == best)) best = e, where = i * p.w + j;
		}
	}
	return where;
}

// maxpool2d: each element of y is the largest of its window of x; grid.y is the
// plane.
template <class T> DEVICE void maxpool2d(const T *x, T *y, const Pool &p) {
	int at = block() * 256 + thread();
	if (at >= p.oh * p.ow) return;
	const T *plane = x + (u64)block_y() * p.h * p.w;
	int k = largest(plane, p, window(p, at));
	y[(u64)block_y() * p.oh * p.ow + at] = k < 0 ? -(T)__builtin_inff() : plane[k];
}

// avgpool2d: each element of y is the sum of its window of x over the window's size,
// that outside of x included.
template <class T> DEVICE void avgpool2d(const T *x, T *y, const Pool &p) {
	int at = block() * 256 + thread();
	if (at >= p.oh * p.ow) return;
	const T *plane = x + (u64)block_y() * p.h * p.w;
	Window v = window(p, at);
	T sum = 0;
	for (int i = v.y0; i < v.y1; i++) {
		for (int j = v.x0; j < v.x1; j++) sum += plane[i * p.w + j];
	}
	y[(u64)block_y() * p.oh * p.ow + at] = sum * ((T)1 / (T)(p.kh * p.kw));
}

// A gradient is summed by the input's elements, over the windows that hold them, in the
// windows' order.
template <bool MAX, class T> DEVICE void gradient(const T *x, const T *dy, T *dx, const Pool &p) {
	int at = block() * 256 + thread();
	if (at >= p.h * p.w) return;
	u64 large = (u64)block_y() * p.h * p.w, small = (u64)block_y() * p.oh * p.ow;
	int row = at / p.w, column = at % p.w;
	// the first window that ends after the element, in each direction
	int y = row + p.ph - p.kh + 1, x0 = column + p.pw - p.kw + 1;
	int y0 = y <= 0 ? 0 : (y + p.sh - 1) / p.sh;
	x0 = x0 <= 0 ? 0 : (x0 + p.sw - 1) / p.sw;
	T sum = 0, share = (T)1 / (T)(p.kh * p.kw);
	for (int i = y0; i < p.oh && i * p.sh - p.ph <= row; i++) {
		for (int j = x0; j < p.ow && j * p.sw - p.pw <= column; j++) {
			T g = dy[small + i * p.ow + j];
			if (!MAX) sum += g * share;
			else if (largest(x + large, p, window(p, i * p.ow + j)) == at) sum += g;
		}
	}
	dx[large + at] = sum;
}

// maxpool2d_grad gives a window's gradient to the element that maxpool2d took.
#define POOLS(D, T) \
	KERNEL THREADS(256) maxpool2d_##D(const T *x, T *y, POOL) { maxpool2d(x, y, THE_POOL); } \
	KERNEL THREADS(256) avgpool2d_##D(const T *x, T *y, POOL) { avgpool2d(x, y, THE_POOL); } \
	KERNEL ROOM(256) maxpool2d_grad_##D(const T *x, const T *dy, T *dx, POOL) { gradient<true>(x, dy, dx, THE_POOL); } \
	KERNEL THREADS(256) avgpool2d_grad_##D(const T *dy, T *dx, POOL) { gradient<false>((const T *)nullptr, dy, dx, THE_POOL); }
POOLS(f32, float)
POOLS(f64, double)
