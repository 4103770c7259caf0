// Copies and fills. All bounds are checked when the call is made. An asynchronous copy
// between a device and memory that is not pinned behaves as the driver's: its source is
// read before the call returns, its destination is written before it returns. A capture
// refuses it, for a graph would copy from and to that memory later.
#include <stdlib.h>
#include <string.h>

#include "graph.h"

static void run_copy(Op *op) { memmove(op->dst, op->src, op->n); }

static Result copy(Stream *s, char *dst, const char *src, uint64_t n) {
	if (!valid_stream(s)) return INVALID_HANDLE;
	if (n == 0) return OK;
	if (!dst || !src) return INVALID_VALUE;
	Result r = submit(s, &(Op){.run = run_copy, .dst = dst, .src = src, .n = n});
	return r || s ? r : context_end();
}

API Result cuMemcpyHtoD_v2(Ptr dst, const char *src, size_t n) {
	ENTER_CONTEXT;
	return copy(NULL, device_bytes(dst, n, WRITE), src, n);
}

API Result cuMemcpyDtoH_v2(char *dst, Ptr src, size_t n) {
	ENTER_CONTEXT;
	if (!host_writable(dst, n)) return INVALID_VALUE;
	return copy(NULL, dst, device_bytes(src, n, READ), n);
}

API Result cuMemcpyDtoD_v2(Ptr dst, Ptr src, size_t n) {
	ENTER_CONTEXT;
	return copy(NULL, device_bytes(dst, n, WRITE), device_bytes(src, n, READ), n);
}

API Result cuMemcpyHtoDAsync_v2(Ptr dst, const char *src, size_t n, Stream *s) {
	ENTER_CONTEXT;
	char *to = device_bytes(dst, n, WRITE);
	if (!to || !src || n == 0 || !s || !valid_stream(s) || is_pinned(src, n)) return copy(s, to, src, n);
	Result r = capture_refuses_stream(s);
	if (r) return r;
	char *staged = malloc(n);
	if (!staged) return OUT_OF_MEMORY;
	memcpy(staged, src, n);
	return submit(s, &(Op){.run = run_copy, .dst = to, .src = staged, .staged = staged, .n = n});
}

API Result cuMemcpyDtoHAsync_v2(char *dst, Ptr src, size_t n, Stream *s) {
	ENTER_CONTEXT;
	if (!host_writable(dst, n)) return INVALID_VALUE;
	bool pinned = !s || !valid_stream(s) || is_pinned(dst, n);
	Result r = pinned ? OK : capture_refuses_stream(s);
	if (r == OK) r = copy(s, dst, device_bytes(src, n, READ), n);
	if (r == OK && !pinned) drain(s);
	return r;
}

API Result cuMemcpyDtoDAsync_v2(Ptr dst, Ptr src, size_t n, Stream *s) {
	ENTER_CONTEXT;
	return copy(s, device_bytes(dst, n, WRITE), device_bytes(src, n, READ), n);
}

API Result cuMemcpyPeerAsync(Ptr dst, Context *to, Ptr src, Context *from, size_t n, Stream *s) {
	ENTER_CONTEXT;
	if (!valid_context(to) || !valid_context(from)) return INVALID_CONTEXT;
	return copy(s, device_bytes(dst, n, WRITE), device_bytes(src, n, READ), n);
}

// Side and Copy2D are CUDA_MEMCPY2D.
typedef struct {
	size_t x, y;
	uint32_t type;
	char *host;
	Ptr device;
	void *array;
	size_t pitch;
} Side;

typedef struct {
	Side src, dst;
	size_t width, height;
} Copy2D;

enum { TYPE_HOST = 1, TYPE_DEVICE = 2 };

// extent returns how many bytes lie between the first and the last of a side.
static uint64_t extent(const Side *s, const Copy2D *c) { return (c->height - 1) * s->pitch + c->width; }

// unpinned reports whether a side is memory of the host that is not pinned.
static bool unpinned(const Side *s, const Copy2D *c) {
	return s->type == TYPE_HOST && !is_pinned(s->host + s->y * s->pitch + s->x, extent(s, c));
}

static char *side_bytes(const Side *s, const Copy2D *c, int access) {
	if (c->width > s->pitch) return NULL;
	uint64_t skip = s->y * s->pitch + s->x, n = extent(s, c);
	if (s->type == TYPE_DEVICE) return device_bytes(s->device + skip, n, access);
	if (s->type != TYPE_HOST || !s->host) return NULL;
	if ((access & WRITE) && !host_writable(s->host + skip, n)) return NULL;
	return s->host + skip;
}

static void run_rows(Op *op) {
	for (uint64_t i = 0; i < op->rows; i++) memmove(op->dst + i * op->dst_pitch, op->src + i * op->src_pitch, op->n);
}

static Result copy2D(Stream *s, const Copy2D *c) {
	if (!valid_stream(s)) return INVALID_HANDLE;
	if (c->width == 0 || c->height == 0) return OK;
	char *dst = side_bytes(&c->dst, c, WRITE);
	const char *src = side_bytes(&c->src, c, READ);
	if (!dst || !src) return INVALID_VALUE;
	bool waits = s && (unpinned(&c->src, c) || unpinned(&c->dst, c));
	Result r = waits ? capture_refuses_stream(s) : OK;
	if (r) return r;
	r = submit(s, &(Op){.run = run_rows, .dst = dst, .src = src, .n = c->width, .rows = c->height,
		.dst_pitch = c->dst.pitch, .src_pitch = c->src.pitch});
	if (r == OK && waits) drain(s);
	return r || s ? r : context_end();
}

API Result cuMemcpy2D_v2(const Copy2D *c) {
	ENTER_CONTEXT;
	return copy2D(NULL, c);
}

API Result cuMemcpy2DAsync_v2(const Copy2D *c, Stream *s) {
	ENTER_CONTEXT;
	return copy2D(s, c);
}

static void run_fill8(Op *op) { memset(op->dst, op->value, op->n); }

static void run_fill32(Op *op) {
	for (uint64_t i = 0; i < op->n; i++) ((uint32_t *)op->dst)[i] = op->value;
}

static Result fill(Stream *s, Ptr p, uint64_t n, uint64_t width, uint32_t value, void (*run)(Op *)) {
	if (!valid_stream(s)) return INVALID_HANDLE;
	if (n == 0) return OK;
	char *at = n > UINT64_MAX / width ? NULL : device_bytes(p, n * width, WRITE);
	if (!at || p % width) return INVALID_VALUE;
	return submit(s, &(Op){.run = run, .dst = at, .n = n, .value = value});
}

API Result cuMemsetD8Async(Ptr p, unsigned char v, size_t n, Stream *s) {
	ENTER_CONTEXT;
	return fill(s, p, n, 1, v, run_fill8);
}

API Result cuMemsetD32Async(Ptr p, unsigned v, size_t n, Stream *s) {
	ENTER_CONTEXT;
	return fill(s, p, n, 4, v, run_fill32);
}
