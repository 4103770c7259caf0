// Convolutions of planes. Each sum has an order that depends on the shapes alone.
#include "tree.h"

// Conv is the geometry: inputs of h by w in groups of so many channels, outputs of oh by
// ow in groups of so many filters, filters of kh by kw whose elements are dh and dw
// apart. Windows are sh and sw apart and begin ph and pw outside.
struct Conv {
	int channels, filters, h, w, oh, ow, kh, kw, sh, sw, ph, pw, dh, dw;
};
#define CONV int channels, int filters, int h, int w, int oh, int ow, int kh, int kw, int sh, int sw, int ph, int pw, int dh, int dw
#define THE_CONV Conv{channels, filters, h, w, oh, ow, kh, kw, sh, sw, ph, pw, dh, dw}

// conv2d: y[n][o] is the sum of the planes of x[n] in the group of o, each correlated
// with its plane of w[o]; grid.y is o, grid.z is n.
template <class T> DEVICE void conv2d(const T *x, const T *weights, T *y, const Conv &p) {
	int at = block() * 256 + thread();
	if (at >= p.oh * p.ow) return;
	u32 o = block_y(), group = o / p.filters, groups = blocks_y() / p.filters;
	const T *plane = x + (u64)(block_z() * groups + group) * p.channels * p.h * p.w;
	const T *filter = weights + (u64)o * p.channels * p.kh * p.kw;
	int row = at / p.ow * p.sh - p.ph, column = at % p.ow * p.sw - p.pw;
	T sum = 0;
	for (int c = 0; c < p.channels; c++) {
		for (int i = 0; i < p.kh; i++) {
			int r = row + i * p.dh;
			if (r < 0 || r >= p.h) continue;
			for (int j = 0; j < p.kw; j++) {
				int q = column + j * p.dw;
				if (q >= 0 && q < p.w) sum = madd(plane[r * p.w + q], filter[i * p.kw + j], sum);
			}
		}
		plane += p.h * p.w;
		filter += p.kh * p.kw;
	}
	y[((u64)block_z() * blocks_y() + o) * p.oh * p.ow + at] = sum;
}

// conv2d_grad_x: dx of conv2d, in the order of filters and of their elements;
// grid.y is the channel, grid.z is n.
template <class T> DEVICE void conv2d_grad_x(const T *dy, const T *weights, T *dx, const Conv &p) {
	int at = block() * 256 + thread();
	if (at >= p.h * p.w) return;
	u32 group = block_y() / p.channels, c = block_y() % p.channels, groups = blocks_y() / p.channels;
	const T *plane = dy + (u64)(block_z() * groups + group) * p.filters * p.oh * p.ow;
	const T *filter = weights + ((u64)group * p.filters * p.channels + c) * p.kh * p.kw;
	int row = at / p.w + p.ph, column = at % p.w + p.pw;
	T sum = 0;
	for (int o = 0; o < p.filters; o++) {
		for (int i = 0; i < p.kh; i++) {
			int r = row - i * p.dh;
			if (r < 0 || r % p.sh || r / p.sh >= p.oh) continue;
			for (int j = 0; j < p.kw; j++) {
				int q = column - j * p.dw;
				if (q < 0 || q % p.sw || q / p.sw >= p.ow) continue;
				sum = madd(plane[r / p.sh * p.ow + q / p.sw], filter[i * p.kw + j], sum);
			}
		}
		plane += p.oh * p.ow;
		filter += (u64)p.channels * p.kh * p.kw;
	}
	dx[((u64)block_z() * blocks_y() + block_y()) * p.h * p.w + at] = sum;
}

// conv2d_grad_w: the gradient by weights of conv2d for n images, a block an
// element; grid.x is its place in the plane, grid.y its channel in the group, grid.z the
// filter.
template <class T> DEVICE void conv2d_grad_w(const T *x, const T *dy, T *out, u32 n, const Conv &p, T *buffer) {
	u32 o = block_z(), group = o / p.filters, groups = blocks_z() / p.filters;
	int row = block() / p.kw * p.dh - p.ph, column = block() % p.kw * p.dw - p.pw;
	T sum = 0;
	for (u32 k = 0; k < n; k++) {
		const T *plane = x + (((u64)k * groups + group) * p.channels + block_y()) * p.h * p.w;
		const T *grad = dy + ((u64)k * blocks_z() + o) * p.oh * p.ow;
		for (int at = thread(); at < p.oh * p.ow; at += ROW) {
			int r = row + at / p.ow * p.sh, q = column + at % p.ow * p.sw;
			if (r >= 0 && r < p.h && q >= 0 && q < p.w) sum = madd(plane[r * p.w + q], grad[at], sum);
		}
	}
	sum = fold<Sum<T>>(sum, buffer);
	if (thread() == 0) out[((u64)o * blocks_y() + block_y()) * p.kh * p.kw + block()] = sum;
}

#define CONVOLUTIONS(D, T) \
	KERNEL THREADS(256) conv2d_##D(const T *x, const T *weights, T *y, CONV) { conv2d(x, weights, y, THE_CONV); } \
	KERNEL THREADS(256) conv2d_grad_x_##D(const T *dy, const T *weights, T *dx, CONV) { conv2d_grad_x(dy, weights, dx, THE_CONV); } \
	KERNEL THREADS(ROW) conv2d_grad_w_##D(const T *x, const T *dy, T *out, u32 n, CONV) { \
		SHARED T buffer[9]; \
		conv2d_grad_w(x, dy, out, n, THE_CONV, buffer); \
	}
CONVOLUTIONS(f32, float)
CONVOLUTIONS(f64, double)
