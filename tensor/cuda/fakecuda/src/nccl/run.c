// Work in a stream: ranks copy to slots that all see, and meet before they read there.
// Folds begin with the last rank, so that they have other bits than those in rank order.
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "nccl.h"

enum { ABORTED = -1 };

static void rest(void) { nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL); }

static bool aborted(Comm *c) { return __atomic_load_n(&c->aborted, __ATOMIC_ACQUIRE); }

// barrier waits until all ranks have come to it, each with the same to do. Like NCCL's
// kernels it waits for a rank that has ended until the communicator is aborted.
static int barrier(Comm *c, uint64_t does) {
	uint64_t n = ++c->steps;
	Member *all = c->shared->members;
	all[c->rank].does[n & 1] = does;
	__atomic_store_n(&all[c->rank].arrived, n, __ATOMIC_RELEASE);
	for (int r = 0; r < c->ranks; r++) {
		while (__atomic_load_n(&all[r].arrived, __ATOMIC_ACQUIRE) < n) {
			if (aborted(c)) return ABORTED;
			rest();
		}
		if (all[r].does[n & 1] != does) {
			fprintf(stderr, "fake NCCL: ranks %d and %d make different calls\n", c->rank, r);
			return LAUNCH_FAILED;
		}
	}
	return 0;
}

// readable returns bytes that something wrote; NULL if there are none.
static const char *readable(Ptr p, uint64_t n) {
	const char *b = driver()->bytes(p, n, READ);
	if (!b || !driver()->written(p, n)) {
		fprintf(stderr, "fake NCCL: %llu bytes at 0x%llx: nothing wrote them\n", (unsigned long long)n, (unsigned long long)p);
		return NULL;
	}
	return b;
}

// folds folds what lies in all slots into a piece of dst.
static int folds(Comm *c, Ptr dst, uint64_t n, const Call *x) {
	char *to = driver()->bytes(dst, n, WRITE);
	if (!to) return ILLEGAL_ADDRESS;
	memcpy(to, c->shared->slots[c->ranks - 1], n);
	for (int r = c->ranks - 2; r >= 0; r--) fold(to, c->shared->slots[r], n / size_of(x->type), x->type, x->op);
	return 0;
}

static int copied(Comm *c, int slot, Ptr dst, uint64_t n) {
	char *to = driver()->bytes(dst, n, WRITE);
	if (!to) return ILLEGAL_ADDRESS;
	memcpy(to, c->shared->slots[slot], n);
	return 0;
}

// piece does n bytes of a call, from off on. block is the block of a REDUCE_SCATTER.
static int piece(Comm *c, const Call *x, uint64_t off, uint64_t n, int block) {
	uint64_t whole = x->count * size_of(x->type);
	if (x->kind != BROADCAST || c->rank == x->peer) {
		const char *from = readable(x->src + (uint64_t)block * (x->kind == REDUCE_SCATTER ? whole : 0) + off, n);
		if (!from) return LAUNCH_FAILED;
		memcpy(c->shared->slots[c->rank], from, n);
	}
	uint64_t does = ((((uint64_t)x->kind * 16 + x->type) * 16 + x->op) * 64 + x->peer) << 40 | x->count;
	int e = barrier(c, does);
	if (e) return e;
	switch (x->kind) {
	case ALL_REDUCE: e = folds(c, x->dst + off, n, x); break;
	case REDUCE:
	case REDUCE_SCATTER:
		if (c->rank == block) e = folds(c, x->dst + off, n, x);
		break;
	case BROADCAST: e = copied(c, x->peer, x->dst + off, n); break;
	default:
		for (int r = 0; r < c->ranks && !e; r++) e = copied(c, r, x->dst + r * whole + off, n);
	}
	int met = barrier(c, 0);
	return e ? e : met;
}

static int collective(Comm *c, const Call *x) {
	uint64_t whole = x->count * size_of(x->type);
	int first = x->kind == REDUCE ? x->peer : 0, last = x->kind == REDUCE_SCATTER ? c->ranks - 1 : first;
	for (int block = first; block <= last; block++)
		for (uint64_t off = 0; off < whole; off += SLOT) {
			int e = piece(c, x, off, whole - off < SLOT ? whole - off : SLOT, block);
			if (e) return e;
		}
	return 0;
}

// transfer does the next part of a SEND or RECV, if the other end lets it.
static int transfer(Comm *c, Call *x) {
	uint64_t whole = x->count * size_of(x->type), n = whole - x->done < BOX ? whole - x->done : BOX;
	int from = x->kind == SEND ? c->rank : x->peer, to = x->kind == SEND ? x->peer : c->rank;
	Box *b = &c->shared->boxes[from][to];
	char *part = c->shared->parts[from][to];
	bool full = __atomic_load_n(&b->sent, __ATOMIC_ACQUIRE) != __atomic_load_n(&b->taken, __ATOMIC_ACQUIRE);
	if (full == (x->kind == SEND)) return 0;
	if (x->kind == SEND) {
		const char *bytes = readable(x->src + x->done, n);
		if (!bytes) return LAUNCH_FAILED;
		memcpy(part, bytes, n);
		b->bytes = whole;
		__atomic_add_fetch(&b->sent, 1, __ATOMIC_RELEASE);
	} else {
		char *bytes = driver()->bytes(x->dst + x->done, n, WRITE);
		if (!bytes) return ILLEGAL_ADDRESS;
		if (b->bytes != whole) {
			fprintf(stderr, "fake NCCL: rank %d sends %llu bytes, rank %d takes %llu\n", from, (unsigned long long)b->bytes, to, (unsigned long long)whole);
			return LAUNCH_FAILED;
		}
		memcpy(bytes, part, n);
		__atomic_add_fetch(&b->taken, 1, __ATOMIC_RELEASE);
	}
	x->done += n;
	return 0;
}

// transfers does all of a group's SEND and RECV, side by side.
static int transfers(Work *w) {
	for (;;) {
		bool left = false;
		for (int i = 0; i < w->count; i++) {
			Call *x = &w->calls[i];
			if (x->kind < SEND || x->done == x->count * size_of(x->type)) continue;
			left = true;
			int e = transfer(w->comm, x);
			if (e) return e;
		}
		if (!left) return 0;
		if (aborted(w->comm)) return ABORTED;
		rest();
	}
}

int run(const char *work) {
	Work *w = (Work *)work;
	int e = 0;
	for (int i = 0; i < w->count && !e; i++)
		if (w->calls[i].kind < SEND) e = collective(w->comm, &w->calls[i]);
	if (!e) e = transfers(w);
	__atomic_sub_fetch(&w->comm->unfinished, 1, __ATOMIC_SEQ_CST);
	return e == ABORTED ? 0 : e;
}
