// collective times collectives among the processes of one host: as a floor, written for this machine's cores, or, with
// MPI defined, by MPI_*. Both are measured by the same loop.
//
//	collective RANKS BUDGET_MS CASE...              the floor: it forks its ranks
//	mpirun -np RANKS collective RANKS BUDGET_MS CASE...
//
// A case is op:dtype:bytes:memory. Bytes are those of the whole buffer, which all-gather and reduce-scatter divide
// among the ranks. Memory is "registered", which peers can read, or "private"; MPI does not know the difference. For
// every case rank 0 prints a line: the slowest rank's microseconds per call, wrong elements, calls.
//
// Before every call each rank writes its whole input, so that no element is where the last call left it. Up to SMALL
// bytes the writing is in what is timed; above, ranks meet in a barrier after it and the call alone is timed.
#define _GNU_SOURCE
#include <immintrin.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#ifdef MPI
#include <mpi.h>
#endif

enum { MAX_RANKS = 8, LINE = 64, SMALL = 8192, SLOT = 128 << 10, WORDS = 48, WORD = 12 };
enum op { ALLREDUCE, REDUCE_SCATTER, ALLGATHER, BROADCAST, BARRIER };
enum type { F32, F16, BF16 };

static const char *op_names[] = {"allreduce", "reducescatter", "allgather", "broadcast", "barrier"};
static const char *type_names[] = {"f32", "f16", "bf16"};

static int ranks, me;
static size_t capacity;             // of the buffers, for the largest case
static char *input, *output;        // of this rank; output is for what does not work in place
static struct task { enum op op; enum type type; size_t bytes; int private; } task;

static size_t width(enum type t) { return t == F32 ? 4 : 2; }

static void die(const char *what) { perror(what); exit(1); }

// ---- elements

static float widen(enum type t, const char *p) {
	uint16_t h;
	float f;
	if (t == F32) { memcpy(&f, p, 4); return f; }
	memcpy(&h, p, 2);
	if (t == F16) return _cvtsh_ss(h);
	uint32_t w = (uint32_t)h << 16;
	memcpy(&f, &w, 4);
	return f;
}

// narrow stores a small integer, which every type holds exactly.
static void narrow(enum type t, char *p, float f) {
	if (t == F32) { memcpy(p, &f, 4); return; }
	uint32_t w;
	memcpy(&w, &f, 4);
	uint16_t h = t == F16 ? _cvtss_sh(f, 0) : (uint16_t)(w >> 16);
	memcpy(p, &h, 2);
}

// value is what element i of rank r holds when results are checked.
static float value(size_t i, int r) { return (float)(i % 29 + r); }

// touch writes n bytes, in the largest stores that the processor has.
static void touch(char *b, size_t n) {
	typedef int line __attribute__((vector_size(64), aligned(4), may_alias));
	size_t i = 0;
	for (; i + 64 <= n; i += 64) *(line *)(b + i) = (line){0};
	for (; i + 4 <= n; i += 4) *(volatile int *)(b + i) = 0; // as they are read: bytes would have to reach the cache before
	for (; i < n; i++) ((volatile char *)b)[i] = 0;
	__asm__ volatile("" : : : "memory");
}

#ifndef MPI
// ---- the floor

// What ranks share beside buffers. A counter has one writer and, but for those of two ranks, a line of its own.
typedef struct { _Alignas(LINE) atomic_uint n; } counter;
typedef struct { _Alignas(LINE) atomic_uint n; char data[WORDS]; char pad[LINE - WORDS - 4]; } small; // a line
typedef struct { _Alignas(LINE) char data[SMALL]; atomic_uint n; } middle;

// Two ranks have their counters in one line, and what they give of up to WORD bytes: the store of a counter fetches the line, and the
// other's comes with it.
typedef struct { _Alignas(LINE) struct { atomic_uint n; char data[WORD]; } of[2]; } two;
typedef struct {
	counter meet[MAX_RANKS], staged[MAX_RANKS], sent[MAX_RANKS];
	two met, two[2];
	small small[2][MAX_RANKS];
	middle middle[2][MAX_RANKS];
	_Alignas(LINE) double result[MAX_RANKS];
	_Alignas(LINE) long count;
} shared;

static shared *S;
static char *peer_input[MAX_RANKS], *peer_output[MAX_RANKS], *slot[MAX_RANKS];
static char *private_input, *private_output;
static unsigned met, exchanged, stages, sends;
static int spins; // before a core is offered to others: few if there are more ranks than cores

static inline void await(atomic_uint *a, unsigned n) {
	for (int k = 0; (int)(atomic_load_explicit(a, memory_order_acquire) - n) < 0;)
		if (++k > spins) sched_yield();
		else _mm_pause();
}

static inline void post(atomic_uint *a, unsigned n) { atomic_store_explicit(a, n, memory_order_release); }

static void barrier(void) {
	unsigned n = ++met;
	if (ranks == 2) {
		post(&S->met.of[me].n, n);
		await(&S->met.of[!me].n, n);
		return;
	}
	post(&S->meet[me].n, n);
	for (int r = 0; r < ranks; r++)
		if (r != me) await(&S->meet[r].n, n);
}

static inline __m512 load16(enum type t, const char *p) {
	__m256i h = _mm256_loadu_si256((const void *)p);
	if (t == F16) return _mm512_cvtph_ps(h);
	return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16));
}

static inline __m256i store16(enum type t, __m512 x) {
	if (t == F16) return _mm512_cvtps_ph(x, 0);
#ifdef __AVX512BF16__
	return (__m256i)_mm512_cvtneps_pbh(x);
#else
	__m512i b = _mm512_castps_si512(x), odd = _mm512_and_si512(_mm512_srli_epi32(b, 16), _mm512_set1_epi32(1));
	b = _mm512_add_epi32(b, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
	return _mm512_cvtepi32_epi16(_mm512_srli_epi32(b, 16));
#endif
}

// fold adds bytes of the sources, in their order, and stores the sum to every destination. It is written out for the
// cases that are timed most.
static inline __attribute__((always_inline)) void fold_f32(char **d, int nd, char **s, int ns, size_t bytes) {
	size_t i = 0;
	for (; i + 256 <= bytes; i += 256) {
		__m512 x[4];
		for (int u = 0; u < 4; u++) x[u] = _mm512_loadu_ps(s[0] + i + 64 * u);
		for (int q = 1; q < ns; q++)
			for (int u = 0; u < 4; u++) x[u] = _mm512_add_ps(x[u], _mm512_loadu_ps(s[q] + i + 64 * u));
		for (int q = 0; q < nd; q++)
			for (int u = 0; u < 4; u++) _mm512_storeu_ps(d[q] + i + 64 * u, x[u]);
	}
	for (; i + 4 <= bytes; i += 4) {
		float x = *(float *)(s[0] + i);
		for (int q = 1; q < ns; q++) x += *(float *)(s[q] + i);
		for (int q = 0; q < nd; q++) *(float *)(d[q] + i) = x;
	}
}

static inline __attribute__((always_inline)) void fold_16(enum type t, char **d, int nd, char **s, int ns, size_t bytes) {
	size_t i = 0;
#ifdef __AVX512BF16__
	// Of 32 bits the upper half is a float already, and the lower one is shifted up: so both sums lie apart, and are shuffled once.
	__m512i pairs = _mm512_set1_epi32(0x00100000), upper = _mm512_set1_epi32(0xffff0000);
	pairs = _mm512_add_epi32(pairs, _mm512_mullo_epi32(_mm512_set1_epi32(0x10001), _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)));
	for (; t == BF16 && i + 256 <= bytes; i += 256) {
		__m512 even[4] = {0}, odd[4] = {0};
		for (int q = 0; q < ns; q++)
			for (int u = 0; u < 4; u++) {
				__m512i v = _mm512_loadu_si512(s[q] + i + 64 * u);
				__m512 e = _mm512_castsi512_ps(_mm512_slli_epi32(v, 16)), o = _mm512_castsi512_ps(_mm512_and_si512(v, upper));
				even[u] = q ? _mm512_add_ps(even[u], e) : e, odd[u] = q ? _mm512_add_ps(odd[u], o) : o;
			}
		__m512i r[4];
		for (int u = 0; u < 4; u++) r[u] = _mm512_permutexvar_epi16(pairs, (__m512i)_mm512_cvtne2ps_pbh(odd[u], even[u]));
		for (int q = 0; q < nd; q++)
			for (int u = 0; u < 4; u++) _mm512_storeu_si512(d[q] + i + 64 * u, r[u]);
	}
#endif
	for (; i + 128 <= bytes; i += 128) {
		__m512 x[4];
		for (int u = 0; u < 4; u++) x[u] = load16(t, s[0] + i + 32 * u);
		for (int q = 1; q < ns; q++)
			for (int u = 0; u < 4; u++) x[u] = _mm512_add_ps(x[u], load16(t, s[q] + i + 32 * u));
		__m256i h[4];
		for (int u = 0; u < 4; u++) h[u] = store16(t, x[u]);
		for (int q = 0; q < nd; q++)
			for (int u = 0; u < 4; u++) _mm256_storeu_si256((void *)(d[q] + i + 32 * u), h[u]);
	}
	for (; i + 2 <= bytes; i += 2) {
		float x = widen(t, s[0] + i);
		for (int q = 1; q < ns; q++) x += widen(t, s[q] + i);
		for (int q = 0; q < nd; q++) narrow(t, d[q] + i, x);
	}
}

static void fold(char **d, int nd, char **s, int ns, size_t bytes) {
	if (task.type == F32) {
		if (ns == 2 && nd == 2) fold_f32(d, 2, s, 2, bytes);
		else if (ns == 2 && nd == 1) fold_f32(d, 1, s, 2, bytes);
		else fold_f32(d, nd, s, ns, bytes);
	} else if (task.type == F16) {
		if (ns == 2 && nd == 2) fold_16(F16, d, 2, s, 2, bytes);
		else fold_16(F16, d, nd, s, ns, bytes);
	} else if (ns == 2 && nd == 2) fold_16(BF16, d, 2, s, 2, bytes);
	else fold_16(BF16, d, nd, s, ns, bytes);
}

// part is rank r's share of n bytes, in whole lines.
static size_t part(size_t n, int r, size_t *length) {
	size_t each = (n / ranks + LINE - 1) / LINE * LINE, from = each * r < n ? each * r : n;
	*length = r == ranks - 1 || from + each > n ? n - from : each;
	return from;
}

// Between two ranks, who folds a slot stores the result there, too: that brings it the lines, and their owner gets them back faster than
// lines that both have for reading.

// exchange: everybody puts his bytes beside a counter and folds everybody's. Two sets, used in turn: who is one call
// ahead can't be two ahead, because he waited for this one's counter.
static void exchange(char *b, size_t n) {
	unsigned e = ++exchanged;
	char *s[MAX_RANKS];
	int takes = ranks == 2 && n > WORDS;
	if (ranks == 2 && n <= WORD) {
		two *both = &S->two[e & 1];
		memcpy(both->of[me].data, b, n);
		post(&both->of[me].n, e);
		await(&both->of[!me].n, e);
		s[me] = b, s[!me] = both->of[!me].data;
	} else if (n <= WORDS) {
		small *mine = &S->small[e & 1][me];
		memcpy(mine->data, b, n);
		post(&mine->n, e);
		for (int r = 0; r < ranks; r++) {
			s[r] = S->small[e & 1][r].data;
			if (r != me) await(&S->small[e & 1][r].n, e);
		}
	} else {
		middle *mine = &S->middle[e & 1][me];
		memcpy(mine->data, b, n);
		post(&mine->n, e);
		for (int r = 0; r < ranks; r++) {
			s[r] = S->middle[e & 1][r].data;
			if (r != me) await(&S->middle[e & 1][r].n, e);
		}
	}
	if (takes) s[me] = b; // the peer may store to the slot already
	char *d[2] = {b, s[!me]};
	fold(d, takes ? 2 : 1, s, ranks, n);
}

// allreduce in place in buffers that all can write: each folds its part of all into all.
static void allreduce(size_t n) {
	if (n <= 4096) { exchange(input, n); return; }
	char *all[MAX_RANKS];
	size_t length, from = part(n, me, &length);
	for (int r = 0; r < ranks; r++) all[r] = peer_input[r] + from;
	barrier();
	fold(all, ranks, all, ranks, length);
	barrier();
}

// allreduce_private goes through slots, of which each rank has two, used in turn.
static void allreduce_private(size_t n) {
	if (n <= 4096) { exchange(input, n); return; }
	for (size_t i = 0; i < n; i += SLOT) {
		size_t l = n - i < SLOT ? n - i : SLOT, length;
		unsigned e = ++stages, at = (e & 1) * SLOT;
		memcpy(slot[me] + at, input + i, l);
		char *s[MAX_RANKS], *d = input + i;
		if (ranks == 2) { // each folds all of it: the peer's bytes would have to be read in any case
			post(&S->staged[me].n, e);
			await(&S->staged[!me].n, e);
			s[me] = input + i, s[!me] = slot[!me] + at;
			fold((char *[]){d, s[!me]}, 2, s, 2, l);
			continue;
		}
		barrier();
		size_t from = part(l, me, &length);
		for (int r = 0; r < ranks; r++) s[r] = slot[r] + at + from;
		fold(&s[me], 1, s, ranks, length);
		barrier();
		for (int k = 0; k < ranks; k++) {
			int r = (me + k) % ranks;
			from = part(l, r, &length);
			memcpy(input + i + from, slot[r] + at + from, length);
		}
	}
}

// share is the bytes of a rank's equal part, in whole elements.
static size_t share(size_t n) { return n / width(task.type) / ranks * width(task.type); }

static void reduce_scatter(size_t n) {
	char *s[MAX_RANKS];
	for (int r = 0; r < ranks; r++) s[r] = peer_input[r] + share(n) * me;
	barrier();
	fold(&output, 1, s, ranks, share(n));
	barrier();
}

// allgather: the part of each rank is in its place in its own buffer already.
static void allgather(size_t n) {
	barrier();
	for (int k = 1; k < ranks; k++) {
		int r = (me + k) % ranks;
		memcpy(input + share(n) * r, peer_input[r] + share(n) * r, share(n));
	}
	barrier();
}

static void broadcast(size_t n) {
	unsigned e = ++sends;
	if (me) {
		await(&S->sent[0].n, e);
		memcpy(input, n <= WORDS ? S->small[e & 1][0].data : peer_input[0], n);
		post(&S->sent[me].n, e);
		return;
	}
	if (n <= WORDS) memcpy(S->small[e & 1][0].data, input, n);
	post(&S->sent[0].n, e);
	for (int r = 1; r < ranks; r++) await(&S->sent[r].n, e);
}

static void call(void) {
	switch (task.op) {
	case ALLREDUCE: if (task.private) allreduce_private(task.bytes); else allreduce(task.bytes); break;
	case REDUCE_SCATTER: reduce_scatter(task.bytes); break;
	case ALLGATHER: allgather(task.bytes); break;
	case BROADCAST: broadcast(task.bytes); break;
	case BARRIER: barrier(); break;
	}
}

static void meet(void) { barrier(); }

// worst is the largest of all ranks' x.
static double worst(double x) {
	barrier();
	S->result[me] = x;
	barrier();
	for (int r = 0; r < ranks; r++) x = S->result[r] > x ? S->result[r] : x;
	return x;
}

static void choose_buffers(void) {
	input = task.private ? private_input : peer_input[me];
	output = task.private ? private_output : peer_output[me];
}

static char *memory(size_t n, int flags) {
	char *p = mmap(0, n, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED) die("mmap");
	return p;
}

static void pin(int n) {
	cpu_set_t all, one;
	if (sched_getaffinity(0, sizeof all, &all)) die("sched_getaffinity");
	spins = ranks > CPU_COUNT(&all) ? 20 : 4000;
	if (ranks > CPU_COUNT(&all)) return;
	for (int c = 0; c < CPU_SETSIZE; c++)
		if (CPU_ISSET(c, &all) && n-- == 0) {
			CPU_ZERO(&one);
			CPU_SET(c, &one);
			if (sched_setaffinity(0, sizeof one, &one)) die("sched_setaffinity");
			return;
		}
}

static pid_t children[MAX_RANKS];

// bereaved ends rank 0, which would wait for ever for one that failed.
static void bereaved(int sig) { (void)sig; _exit(1); }

static void begin(void) {
	signal(SIGCHLD, bereaved);
	S = (shared *)memory(sizeof *S, MAP_SHARED);
	for (int r = 0; r < ranks; r++) {
		peer_input[r] = memory(capacity, MAP_SHARED);
		peer_output[r] = memory(capacity, MAP_SHARED);
		slot[r] = memory(2 * SLOT, MAP_SHARED);
	}
	pid_t parent = getpid();
	for (int r = 1; r < ranks; r++) {
		pid_t pid = fork();
		if (pid < 0) die("fork");
		if (!pid) {
			me = r;
			if (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != parent) exit(1);
			break;
		}
		children[r] = pid;
	}
	pin(me);
	private_input = memory(capacity, MAP_PRIVATE);
	private_output = memory(capacity, MAP_PRIVATE);
	touch(private_input, capacity);
	touch(private_output, capacity);
	touch(peer_input[me], capacity);
	touch(peer_output[me], capacity);
	touch(slot[me], 2 * SLOT);
	barrier();
	for (int r = 0; r < ranks; r++) // every page of the others is mapped here as well
		for (size_t i = 0; i < capacity; i += 4096) {
			(void)*(volatile char *)(peer_output[r] + i);
			atomic_fetch_add((_Atomic char *)(peer_input[r] + i), 0);
		}
	barrier();
}

static void end(void) {
	signal(SIGCHLD, SIG_DFL);
	barrier();
	if (me) exit(0);
	for (int r = 1; r < ranks; r++) {
		int status;
		if (waitpid(children[r], &status, 0) < 0 || status) die("a rank failed");
	}
}

#else
// ---- MPI

static void call(void) {
	int n = (int)(task.bytes / width(task.type)), each = n / ranks;
	switch (task.op) {
	case ALLREDUCE: MPI_Allreduce(MPI_IN_PLACE, input, n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD); break;
	case REDUCE_SCATTER: MPI_Reduce_scatter_block(input, output, each, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD); break;
	case ALLGATHER: MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, input, each, MPI_FLOAT, MPI_COMM_WORLD); break;
	case BROADCAST: MPI_Bcast(input, n, MPI_FLOAT, 0, MPI_COMM_WORLD); break;
	case BARRIER: MPI_Barrier(MPI_COMM_WORLD); break;
	}
}

static void meet(void) { MPI_Barrier(MPI_COMM_WORLD); }

static double worst(double x) {
	double all;
	MPI_Allreduce(&x, &all, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
	return all;
}

static void choose_buffers(void) {
	if (task.type != F32) { fprintf(stderr, "MPI has no 16-bit floats\n"); MPI_Abort(MPI_COMM_WORLD, 2); }
}

static void begin(void) {
	MPI_Init(0, 0);
	MPI_Comm_rank(MPI_COMM_WORLD, &me);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	if (posix_memalign((void **)&input, 4096, capacity) || posix_memalign((void **)&output, 4096, capacity)) die("posix_memalign");
	touch(input, capacity);
	touch(output, capacity);
}

static void end(void) { MPI_Finalize(); }
#endif

// ---- the same for both

static double seconds_per_tick;

static inline uint64_t ticks(void) {
	unsigned aux;
	return __rdtscp(&aux);
}

static void calibrate(void) {
	struct timespec a, b;
	clock_gettime(CLOCK_MONOTONIC, &a);
	uint64_t first = ticks();
	double took;
	do {
		clock_gettime(CLOCK_MONOTONIC, &b);
		took = (double)(b.tv_sec - a.tv_sec) + 1e-9 * (double)(b.tv_nsec - a.tv_nsec);
	} while (took < 0.01);
	seconds_per_tick = took / (double)(ticks() - first);
}

// wrong calls once and counts the elements of this rank that are not what they should be.
static double wrong(void) {
	size_t w = width(task.type), n = task.bytes / w, each = n / ranks;
	if (task.op == BARRIER) return 0;
	for (size_t i = 0; i < n; i++) {
		int mine = task.op == ALLGATHER ? i / each == (size_t)me : task.op != BROADCAST || !me;
		narrow(task.type, input + i * w, mine ? value(i, me) : -1);
	}
	meet();
	call();
	double bad = 0;
	char *got = task.op == REDUCE_SCATTER ? output : input;
	if (task.op == REDUCE_SCATTER || task.op == ALLGATHER) n = each * ranks;
	for (size_t i = 0; i < (task.op == REDUCE_SCATTER ? each : n); i++) {
		float want = 0;
		size_t k = task.op == REDUCE_SCATTER ? i + each * me : i;
		if (task.op == ALLGATHER) want = value(i, (int)(i / each));
		else if (task.op == BROADCAST) want = value(i, 0);
		else for (int r = 0; r < ranks; r++) want += value(k, r);
		bad += widen(task.type, got + i * w) != want;
	}
	meet();
	return bad;
}

static void time_it(double budget) {
	choose_buffers();
	double bad = worst(wrong());
	int within = task.bytes <= SMALL && task.op != BROADCAST; // the writing is timed too
	size_t dirty = task.op == BROADCAST && me ? 0 : task.op == BARRIER ? 0 : task.bytes;
	long n = 3;
	double seconds = 0;
	for (int pass = 0; pass < 2; pass++) { // the first finds out how many calls fit
		uint64_t took = 0;
		meet();
		uint64_t start = ticks();
		for (long i = 0; i < n; i++) {
			touch(input, dirty);
			if (within) { call(); continue; }
			meet();
			uint64_t t = ticks();
			call();
			took += ticks() - t;
		}
		if (within) took = ticks() - start;
		seconds = worst((double)took * seconds_per_tick / (double)n);
		if (!pass) {
			n = (long)(budget / seconds);
			n = n < 3 ? 3 : n > 50000 ? 50000 : n;
			if (n > 100) for (long i = 0; i < n / 10; i++) call();
		}
	}
	if (!me) { printf("%.4f %.0f %ld\n", seconds * 1e6, bad, n); fflush(stdout); }
}

int main(int argc, char **argv) {
	if (argc < 4) { fprintf(stderr, "usage: collective RANKS BUDGET_MS op:dtype:bytes:memory...\n"); return 2; }
	struct task tasks[256];
	int count = 0;
	ranks = atoi(argv[1]);
	if (ranks < 2 || ranks > MAX_RANKS || argc - 3 > 256) return 2;
	for (int i = 3; i < argc; i++) {
		char op[32], type[32], memory[32];
		struct task *t = &tasks[count++];
		if (sscanf(argv[i], "%31[^:]:%31[^:]:%zu:%31s", op, type, &t->bytes, memory) != 4) return 2;
		int o = 0, y = 0;
		while (o < 5 && strcmp(op, op_names[o])) o++;
		while (y < 3 && strcmp(type, type_names[y])) y++;
		if (o == 5 || y == 3) { fprintf(stderr, "case %s?\n", argv[i]); return 2; }
		if ((o == REDUCE_SCATTER || o == ALLGATHER) && t->bytes / width(y) / ranks == 0) { fprintf(stderr, "%s: nothing for a rank\n", argv[i]); return 2; }
		t->op = o, t->type = y, t->private = !strcmp(memory, "private");
		if (t->bytes > capacity) capacity = t->bytes;
	}
	capacity = (capacity + 8191) / 4096 * 4096;
	begin();
	calibrate();
	for (int i = 0; i < count; i++) {
		task = tasks[i];
		time_it(atof(argv[2]) * 1e-3);
	}
	end();
	return 0;
}
