// Pinned memory of the host: allocated here, or registered.
#include "fake.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { DEVICE_MAP = 2, READ_ONLY = 8 };

typedef struct Pinned {
	char *p;
	uint64_t n;
	unsigned flags;
	bool allocated;
	struct Pinned *next;
} Pinned;

static Pinned *pinned;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static uint64_t pages(uint64_t n) { return (n + 4095) & ~4095ull; }

// holder returns the range that holds [p, p+n). The caller holds the lock.
static Pinned *holder(const char *p, uint64_t n) {
	for (Pinned *x = pinned; x; x = x->next) {
		if (p >= x->p && (uint64_t)(p - x->p) <= x->n && n <= x->n - (p - x->p)) return x;
	}
	return NULL;
}

bool is_pinned(const void *p, uint64_t n) {
	pthread_mutex_lock(&lock);
	bool found = holder(p, n) != NULL;
	pthread_mutex_unlock(&lock);
	return found;
}

bool host_writable(void *p, uint64_t n) {
	pthread_mutex_lock(&lock);
	Pinned *x = holder(p, n);
	bool writable = !x || !(x->flags & READ_ONLY);
	pthread_mutex_unlock(&lock);
	return writable;
}

char *pinned_bytes(Ptr p, uint64_t n, int access) {
	pthread_mutex_lock(&lock);
	Pinned *x = holder((char *)p, n);
	bool may = x && !((access & WRITE) && (x->flags & READ_ONLY));
	pthread_mutex_unlock(&lock);
	return may ? (char *)p : NULL;
}

// mapped reports whether [p, p+n) is mapped, and writable where that is asked for.
static bool mapped(uint64_t p, uint64_t n, bool writable) {
	FILE *f = fopen("/proc/self/maps", "re");
	if (!f) return false;
	char line[4400], perms[8];
	uint64_t from, to, end = p + n;
	while (p < end && fgets(line, sizeof line, f)) {
		if (sscanf(line, "%lx-%lx %7s", &from, &to, perms) != 3 || to <= p) continue;
		if (from > p || perms[0] != 'r' || (writable && perms[1] != 'w')) break;
		p = to;
	}
	fclose(f);
	return p >= end;
}

static void add(char *p, uint64_t n, unsigned flags, bool allocated) {
	Pinned *x = calloc(1, sizeof *x);
	*x = (Pinned){p, n, flags, allocated, pinned};
	pinned = x;
	count(HOST_RANGES, 1);
}

API Result cuMemHostAlloc(void **p, size_t n, unsigned flags) {
	ENTER_UNSAFE;
	if (n == 0 || flags & ~7u) return INVALID_VALUE;
	void *m = mmap(NULL, pages(n), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (m == MAP_FAILED) return OUT_OF_MEMORY;
	pthread_mutex_lock(&lock);
	add(m, n, flags, true);
	pthread_mutex_unlock(&lock);
	*p = m;
	return OK;
}

// Registration wants whole pages, which is stricter than the driver.
API Result cuMemHostRegister_v2(void *p, size_t n, unsigned flags) {
	ENTER_UNSAFE;
	if (!p || n == 0 || (((uint64_t)p | n) & 4095) || flags & ~15u) return INVALID_VALUE;
	if (!mapped((uint64_t)p, n, !(flags & READ_ONLY))) return INVALID_VALUE;
	pthread_mutex_lock(&lock);
	bool overlaps = false;
	for (Pinned *x = pinned; x; x = x->next) {
		if ((char *)p < x->p + x->n && x->p < (char *)p + n) overlaps = true;
	}
	if (!overlaps) add(p, n, flags, false);
	pthread_mutex_unlock(&lock);
	return overlaps ? ALREADY_REGISTERED : OK;
}

// drop forgets the range that begins at p, and unmaps it if it was allocated.
static bool drop(char *p, bool allocated) {
	drain_all();
	bool found = false;
	pthread_mutex_lock(&lock);
	for (Pinned **at = &pinned; *at; at = &(*at)->next) {
		Pinned *x = *at;
		if (x->p == p && x->allocated == allocated) {
			*at = x->next;
			if (allocated) munmap(x->p, pages(x->n));
			free(x);
			found = true;
			break;
		}
	}
	pthread_mutex_unlock(&lock);
	if (found) count(HOST_RANGES, -1);
	return found;
}

API Result cuMemHostUnregister(void *p) {
	ENTER_UNSAFE;
	return drop(p, false) ? OK : NOT_REGISTERED;
}

API Result cuMemFreeHost(void *p) {
	ENTER_UNSAFE;
	return drop(p, true) ? OK : INVALID_VALUE;
}

API Result cuMemHostGetDevicePointer_v2(Ptr *out, void *p, unsigned flags) {
	ENTER_CONTEXT;
	if (flags || !is_pinned(p, 1)) return INVALID_VALUE;
	*out = (Ptr)p;
	return OK;
}

API Result cuMemHostGetFlags(unsigned *flags, void *p) {
	ENTER_CONTEXT;
	pthread_mutex_lock(&lock);
	Pinned *x = holder(p, 1);
	if (x) *flags = x->flags | DEVICE_MAP; // unified addresses map all pinned memory
	pthread_mutex_unlock(&lock);
	return x ? OK : INVALID_VALUE;
}
