// Elements: f16 and bf16 are rounded after each step, as NCCL's are.
#include <string.h>

#include "nccl.h"

enum { U8 = 1, I32 = 2, I64 = 4, F16 = 6, F32 = 7, F64 = 8, BF16 = 9 };
enum { SUM, PROD, MAX, MIN };

uint64_t size_of(int type) {
	switch (type) {
	case U8: return 1;
	case F16:
	case BF16: return 2;
	case I32:
	case F32: return 4;
	case I64:
	case F64: return 8;
	}
	return 0;
}

static float from_bf16(uint16_t h) {
	uint32_t u = (uint32_t)h << 16;
	float f;
	memcpy(&f, &u, sizeof f);
	return f;
}

static uint16_t to_bf16(float f) {
	uint32_t u;
	memcpy(&u, &f, sizeof u);
	if ((u & 0x7fffffff) > 0x7f800000) return (uint16_t)(u >> 16 | 0x40); // NaN
	return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

// STEP folds y into x, both of a type in which that is one operation.
#define STEP(x, y)                                      \
	switch (op) {                                       \
	case SUM: x = x + y; break;                         \
	case PROD: x = x * y; break;                        \
	case MAX: x = x > y ? x : y; break;                 \
	case MIN: x = x < y ? x : y; break;                 \
	}

#define FOLD(T)                                         \
	do {                                                \
		T *x = (T *)into;                               \
		const T *y = (const T *)with;                   \
		for (uint64_t i = 0; i < count; i++) STEP(x[i], y[i]) \
	} while (0)

void fold(char *into, const char *with, uint64_t count, int type, int op) {
	switch (type) {
	case U8: FOLD(uint8_t); break;
	case I32:
		if (op <= PROD) FOLD(uint32_t); // which wraps around
		else FOLD(int32_t);
		break;
	case I64:
		if (op <= PROD) FOLD(uint64_t);
		else FOLD(int64_t);
		break;
	case F16: FOLD(_Float16); break;
	case F32: FOLD(float); break;
	case F64: FOLD(double); break;
	case BF16:
		for (uint64_t i = 0; i < count; i++) {
			uint16_t *x = (uint16_t *)into + i;
			float a = from_bf16(*x), b = from_bf16(((const uint16_t *)with)[i]);
			STEP(a, b)
			*x = to_bf16(a);
		}
	}
}
