// What one core of this machine can do at most: multiplications and additions, and an optimizer's bytes.
//
//	arith peak ROUNDS        GFLOP/s, a number a round
//	arith adamw N ROUNDS     milliseconds of a pass over N elements that reads four arrays and writes three
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#if defined(__AVX512F__)
enum { LANES = 16 };
#elif defined(__AVX2__)
enum { LANES = 8 };
#else
enum { LANES = 4 };
#endif
typedef float vec __attribute__((vector_size(4 * LANES)));

static double now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + 1e-9 * t.tv_nsec;
}

// Twelve chains, enough to hide the latency of each.
#define STEP(a) a = a * x + y;
#define ALL(f) f(a0) f(a1) f(a2) f(a3) f(a4) f(a5) f(a6) f(a7) f(a8) f(a9) f(a10) f(a11)
#ifdef __aarch64__
#define KEEP(a) __asm__ volatile("" : "+w"(a));
#else
#define KEEP(a) __asm__ volatile("" : "+v"(a));
#endif

static double peak(void) {
	vec x = {0}, y = {0};
	x += 0.999f, y += 0.001f;
	vec a0 = y, a1 = y, a2 = y, a3 = y, a4 = y, a5 = y, a6 = y, a7 = y, a8 = y, a9 = y, a10 = y, a11 = y;
	const long n = 4 << 20;
	double start = now();
	for (long r = 0; r < n; r++) {
		ALL(STEP)
		ALL(KEEP)
	}
	double t = now() - start;
	return 2.0 * LANES * 12 * n / t * 1e-9;
}

// put writes a figure as the caller reads it: four bytes of a float.
static void put(float x) { fwrite(&x, sizeof x, 1, stdout); }

static float *array(long n) {
	float *p = aligned_alloc(64, n * sizeof *p);
	if (!p) abort();
	for (long i = 0; i < n; i++) p[i] = 0.5f;
	return p;
}

int main(int argc, char **argv) {
	if (argc == 3 && !strcmp(argv[1], "peak")) {
		for (int r = atoi(argv[2]); r > 0; r--) put(peak());
		return 0;
	}
	if (argc == 4 && !strcmp(argv[1], "adamw")) {
		long n = atol(argv[2]) / LANES * LANES;
		vec *p = (vec *)array(n), *m = (vec *)array(n), *v = (vec *)array(n), *g = (vec *)array(n);
		for (int r = atoi(argv[3]); r > 0; r--) {
			double start = now();
			for (long i = 0; i < n / LANES; i++) {
				m[i] = m[i] * 0.9f + g[i];
				v[i] = v[i] * 0.9f + g[i];
				p[i] = p[i] * 0.9f + m[i] + v[i];
			}
			__asm__ volatile("" ::: "memory");
			put((now() - start) * 1e3);
		}
		return 0;
	}
	fprintf(stderr, "usage: arith peak ROUNDS | arith adamw N ROUNDS\n");
	return 2;
}
