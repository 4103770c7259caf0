// floor is what two processes can do in C on this machine, to be measured beside.
//
//	floor probe  COUNT              round trips of one cache line that both write
//	floor ring   COUNT              round trips of 64 bytes over two rings, spinning
//	floor commit COUNT              the same over rings whose records say themselves that they are there
//	floor futex  COUNT PAUSE_US     round trips of 56 bytes, both sides sleeping on a futex, with pauses
//	floor ring-stream   COUNT BATCH messages of 64 bytes one way, shown to the reader every BATCH
//	floor commit-stream COUNT BATCH the same
//
// Two processes, each pinned to a core. What goes to standard output is binary: floats in the
// machine's order, for round trips the nanoseconds of each, for streams one, the messages a second.
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LINE = 128, MESSAGE = 64, CAPACITY = 1 << 20, MASK = CAPACITY - 1, LAZY = CAPACITY / 8 };

// ---- clock: the cycle counter, in nanoseconds after calibrate

static double ns_per_tick;

static inline uint64_t ticks(void) {
#if defined(__x86_64__)
	uint32_t lo, hi;
	__asm__ volatile("rdtscp" : "=a"(lo), "=d"(hi) : : "rcx", "memory");
	return (uint64_t)hi << 32 | lo;
#elif defined(__aarch64__)
	uint64_t t;
	__asm__ volatile("isb; mrs %0, cntvct_el0" : "=r"(t) : : "memory");
	return t;
#else
#error "no cycle counter known"
#endif
}

static inline void relax(void) {
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

static uint64_t now_ns(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void calibrate(void) {
	uint64_t t0 = now_ns(), c0 = ticks(), t1;
	do t1 = now_ns(); while (t1 - t0 < 10000000);
	ns_per_tick = (double)(t1 - t0) / (double)(ticks() - c0);
}

static void die(const char *what) { perror(what); exit(1); }

// pin puts this process on the n-th of the cores that it may use, when there are two.
static void pin(int n) {
	cpu_set_t all, one;
	if (sched_getaffinity(0, sizeof all, &all)) die("sched_getaffinity");
	if (CPU_COUNT(&all) < 2) return;
	for (int c = 0; c < CPU_SETSIZE; c++)
		if (CPU_ISSET(c, &all) && n-- == 0) {
			CPU_ZERO(&one);
			CPU_SET(c, &one);
			if (sched_setaffinity(0, sizeof one, &one)) die("sched_setaffinity");
			return;
		}
}

// ---- shared memory

typedef struct {
	_Alignas(LINE) _Atomic uint64_t head;
	_Alignas(LINE) _Atomic uint64_t tail;
	_Alignas(4096) char data[CAPACITY + 8];
} ring;

typedef struct {
	_Alignas(LINE) _Atomic uint64_t seq;
	char body[56];
} line;

typedef struct {
	_Alignas(LINE) _Atomic uint32_t here;
	_Alignas(LINE) _Atomic uint32_t word[2];
	line lines[2];
	ring rings[2]; // rings[i] is written by process i
} shared;

static shared *S;
static int me; // 0 measures, 1 answers
static char message[MESSAGE];

// ---- ring: an index each, both cached by the other side

static struct { uint64_t tail, head, staged; } out;  // head: as last seen
static struct { uint64_t head, tail; } in;           // tail: as last seen

static inline void ring_put(const char *m) {
	ring *r = &S->rings[me];
	while (out.tail + 8 + MESSAGE - out.head > CAPACITY) {
		atomic_store_explicit(&r->tail, out.tail, memory_order_release);
		out.head = atomic_load_explicit(&r->head, memory_order_acquire);
		if (out.tail + 8 + MESSAGE - out.head > CAPACITY) relax();
	}
	uint64_t at = out.tail & MASK;
	if (CAPACITY - at < 8 + MESSAGE) { // a record never crosses the end
		*(uint64_t *)(r->data + at) = UINT64_MAX;
		out.tail += CAPACITY - at;
		ring_put(m);
		return;
	}
	*(uint64_t *)(r->data + at) = MESSAGE;
	memcpy(r->data + at + 8, m, MESSAGE);
	out.tail += 8 + MESSAGE;
}

static inline void ring_show(void) { atomic_store_explicit(&S->rings[me].tail, out.tail, memory_order_release); }

static inline void ring_get(char *m) {
	ring *r = &S->rings[!me];
	for (;;) {
		while (in.head == in.tail) {
			in.tail = atomic_load_explicit(&r->tail, memory_order_acquire);
			if (in.head == in.tail) relax();
		}
		uint64_t at = in.head & MASK, n = *(uint64_t *)(r->data + at);
		if (n != UINT64_MAX) {
			memcpy(m, r->data + at + 8, n);
			in.head += 8 + ((n + 7) & ~7ull);
			break;
		}
		in.head += CAPACITY - at;
	}
	atomic_store_explicit(&r->head, in.head, memory_order_release);
}

// ---- commit: the record's first word says that it is there; the head is told now and then

static inline void commit_put(const char *m) {
	ring *r = &S->rings[me];
	uint64_t at = out.tail & MASK, pad = CAPACITY - at < 8 + MESSAGE ? CAPACITY - at : 0;
	while (out.tail + pad + 8 + MESSAGE + 8 - out.head > CAPACITY) {
		out.head = atomic_load_explicit(&r->head, memory_order_acquire);
		if (out.tail + pad + 8 + MESSAGE + 8 - out.head > CAPACITY) relax();
	}
	if (pad) {
		*(volatile uint64_t *)r->data = 0;
		atomic_store_explicit((_Atomic uint64_t *)(r->data + at), UINT64_MAX, memory_order_release);
		out.tail += pad;
		at = 0;
	}
	*(volatile uint64_t *)(r->data + ((at + 8 + MESSAGE) & MASK)) = 0;
	memcpy(r->data + at + 8, m, MESSAGE);
	atomic_store_explicit((_Atomic uint64_t *)(r->data + at), MESSAGE + 1, memory_order_release);
	out.tail += 8 + MESSAGE;
}

static inline void commit_get(char *m) {
	ring *r = &S->rings[!me];
	for (;;) {
		uint64_t at = in.head & MASK, n;
		while ((n = atomic_load_explicit((_Atomic uint64_t *)(r->data + at), memory_order_acquire)) == 0) relax();
		if (n != UINT64_MAX) {
			memcpy(m, r->data + at + 8, n - 1);
			in.head += 8 + ((n + 6) & ~7ull);
			break;
		}
		in.head += CAPACITY - at;
	}
	if (in.head - in.tail >= LAZY) { // tail: what was told
		in.tail = in.head;
		atomic_store_explicit(&r->head, in.head, memory_order_release);
	}
}

// ---- probe: one line a direction and nothing else

static uint64_t sent, seen;

static inline void line_put(void) { atomic_store_explicit(&S->lines[me].seq, ++sent, memory_order_release); }

static inline void line_get(void) {
	for (seen++; atomic_load_explicit(&S->lines[!me].seq, memory_order_acquire) != seen;) relax();
}

// ---- futex: everybody sleeps

static void futex_put(const char *m) {
	memcpy(S->lines[me].body, m, sizeof S->lines[me].body);
	atomic_fetch_add(&S->word[me], 1);
	syscall(SYS_futex, &S->word[me], FUTEX_WAKE, 1, NULL, NULL, 0);
}

static void futex_get(char *m) {
	static uint32_t last;
	uint32_t v;
	while ((v = atomic_load(&S->word[!me])) == last)
		if (syscall(SYS_futex, &S->word[!me], FUTEX_WAIT, last, NULL, NULL, 0) && errno != EAGAIN && errno != EINTR) die("futex");
	last = v;
	memcpy(m, S->lines[!me].body, sizeof S->lines[!me].body);
}

// ---- programs

enum { PROBE, RING, COMMIT, FUTEX };

static inline void put(int how) {
	switch (how) {
	case PROBE: line_put(); break;
	case RING: ring_put(message); ring_show(); break;
	case COMMIT: commit_put(message); break;
	case FUTEX: futex_put(message); break;
	}
}

static inline void get(int how) {
	switch (how) {
	case PROBE: line_get(); break;
	case RING: ring_get(message); break;
	case COMMIT: commit_get(message); break;
	case FUTEX: futex_get(message); break;
	}
}

static inline __attribute__((always_inline)) void trips(int how, long n, float *took, long pause_us) {
	if (me) {
		for (long i = 0; i < n; i++) get(how), put(how);
		return;
	}
	if (pause_us) {
		for (long i = 0; i < n; i++) {
			struct timespec t = {pause_us / 1000000, pause_us % 1000000 * 1000};
			nanosleep(&t, NULL);
			uint64_t a = ticks();
			put(how), get(how);
			took[i] = (float)((double)(ticks() - a) * ns_per_tick);
		}
		return;
	}
	for (uint64_t i = 0, a = ticks(), b; i < (uint64_t)n; i++, a = b) {
		put(how), get(how);
		b = ticks();
		took[i] = (float)((double)(b - a) * ns_per_tick);
	}
}

static inline __attribute__((always_inline)) double stream(int how, long n, long batch) {
	if (me == 0) {
		for (long i = 0; i < n;) {
			message[0] = (char)i;
			if (how == RING) {
				ring_put(message);
				if (++i % batch == 0 || i == n) ring_show();
			} else {
				commit_put(message), i++;
			}
		}
		line_get(); // the reader is through
		return 0;
	}
	get(how);
	uint64_t a = now_ns();
	for (long i = 1; i < n; i++) {
		get(how);
		if (message[0] != (char)i) { fprintf(stderr, "floor: out of order\n"); exit(1); }
	}
	double rate = (double)(n - 1) * 1e9 / (double)(now_ns() - a);
	line_put();
	return rate;
}

int main(int argc, char **argv) {
	const char *names[] = {"probe", "ring", "commit", "futex", "ring-stream", "commit-stream"};
	int mode = 0;
	while (mode < 6 && (argc < 3 || strcmp(argv[1], names[mode]))) mode++;
	long n = argc > 2 ? atol(argv[2]) : 0, arg = argc > 3 ? atol(argv[3]) : 0;
	if (mode == 6 || n <= 0 || arg < 0 || (mode >= 4 && arg == 0)) {
		fprintf(stderr, "usage: floor probe|ring|commit COUNT | futex COUNT PAUSE_US | ring-stream|commit-stream COUNT BATCH\n");
		return 2;
	}
	S = mmap(NULL, sizeof *S, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (S == MAP_FAILED) die("mmap");
	float *took = mmap(NULL, (size_t)n * sizeof *took, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (took == MAP_FAILED) die("mmap");
	calibrate();

	// The reader of a stream is the one that measures, and it is the child.
	pid_t child = fork();
	if (child < 0) die("fork");
	me = child == 0;
	if (me) prctl(PR_SET_PDEATHSIG, SIGKILL);
	pin(me);
	atomic_fetch_add(&S->here, 1);
	while (atomic_load(&S->here) < 2) sched_yield();

	long warm = mode < 3 ? n / 10 + 1 : 0;
	switch (mode) {
	case 0: trips(PROBE, warm, took, 0); trips(PROBE, n, took, 0); break;
	case 1: trips(RING, warm, took, 0); trips(RING, n, took, 0); break;
	case 2: trips(COMMIT, warm, took, 0); trips(COMMIT, n, took, 0); break;
	case 3: trips(FUTEX, n, took, arg); break;
	}
	if (mode < 4) {
		if (!me && fwrite(took, sizeof *took, (size_t)n, stdout) != (size_t)n) die("fwrite");
	} else {
		float rate = (float)(mode == 4 ? stream(RING, n, arg) : stream(COMMIT, n, arg));
		if (me && fwrite(&rate, sizeof rate, 1, stdout) != 1) die("fwrite");
	}
	if (fflush(stdout)) die("fflush");
	if (me) _exit(0);
	int status;
	if (waitpid(child, &status, 0) < 0) die("waitpid");
	return status != 0;
}
