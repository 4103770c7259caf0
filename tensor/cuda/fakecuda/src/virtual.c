// Virtual memory: physical memory is a file, which a descriptor hands to other processes.
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fake.h"

#define GRANULARITY (2ull << 20)

typedef struct {
	int type, id;
} Location;

// Property is CUmemAllocationProp.
typedef struct {
	int type, handles;
	Location location;
	void *windows;
	unsigned char flags[8];
} Property;

// Memory is physical memory. It lives until it is released and no longer mapped.
typedef struct Memory {
	int fd, device;
	uint64_t size;
	int refs;      // its handle, and its mappings
	uint64_t used; // of the device's memory; 0 for memory of another process
	struct Memory *next;
} Memory;

static Memory *memories;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static bool valid_property(const Property *p) {
	return p->type == 1 && p->handles <= 1 && p->location.type == 1 && valid_device(p->location.id);
}

static Memory *add(int fd, int device, uint64_t size, uint64_t used) {
	Memory *m = calloc(1, sizeof *m);
	pthread_mutex_lock(&lock);
	*m = (Memory){fd, device, size, 1, used, memories};
	memories = m;
	pthread_mutex_unlock(&lock);
	count(MEMORIES, 1);
	return m;
}

// drop gives a reference back, and the memory with the last. It was taken from the list
// with its handle.
static void drop(Memory *m) {
	if (__atomic_sub_fetch(&m->refs, 1, __ATOMIC_ACQ_REL)) return;
	give(m->device, m->used);
	close(m->fd);
	free(m);
	count(MEMORIES, -1);
}

static bool known(const Memory *m) {
	pthread_mutex_lock(&lock);
	Memory *x = memories;
	while (x && x != m) x = x->next;
	pthread_mutex_unlock(&lock);
	return x != NULL;
}

API Result cuMemGetAllocationGranularity(size_t *n, const Property *p, int option) {
	ENTER;
	if (option < 0 || option > 1 || !valid_property(p)) return INVALID_VALUE;
	*n = GRANULARITY;
	return OK;
}

API Result cuMemCreate(Memory **out, size_t size, const Property *p, unsigned long long flags) {
	ENTER;
	if (flags || size == 0 || size % GRANULARITY || !valid_property(p)) return INVALID_VALUE;
	if (!take(p->location.id, size)) return OUT_OF_MEMORY;
	uint64_t inode;
	int fd = new_file(size, &inode);
	if (fd < 0) {
		give(p->location.id, size);
		return OUT_OF_MEMORY;
	}
	*out = add(fd, p->location.id, size, size);
	return OK;
}

API Result cuMemRelease(Memory *m) {
	ENTER;
	pthread_mutex_lock(&lock);
	Memory **at = &memories;
	while (*at && *at != m) at = &(*at)->next;
	bool found = *at != NULL;
	if (found) *at = m->next;
	pthread_mutex_unlock(&lock);
	if (!found) return INVALID_VALUE;
	drop(m);
	return OK;
}

API Result cuMemExportToShareableHandle(int *fd, Memory *m, int type, unsigned long long flags) {
	ENTER;
	if (flags || type != 1 || !known(m)) return INVALID_VALUE;
	*fd = fcntl(m->fd, F_DUPFD_CLOEXEC, 0);
	return *fd < 0 ? OPERATING_SYSTEM : OK;
}

API Result cuMemImportFromShareableHandle(Memory **out, void *handle, int type) {
	ENTER;
	struct stat st;
	if (type != 1 || fstat((int)(intptr_t)handle, &st) != 0 || st.st_size == 0 || st.st_size % GRANULARITY) return INVALID_VALUE;
	int fd = fcntl((int)(intptr_t)handle, F_DUPFD_CLOEXEC, 0);
	if (fd < 0) return OPERATING_SYSTEM;
	*out = add(fd, current ? current->device : 0, st.st_size, 0);
	return OK;
}

typedef struct Reservation {
	Ptr at;
	uint64_t size;
	struct Reservation *next;
} Reservation;

static Reservation *reservations; // guarded by lock

// within reports whether [p, p+n) is reserved.
static bool within(Ptr p, uint64_t n) {
	bool is = false;
	pthread_mutex_lock(&lock);
	for (Reservation *r = reservations; r; r = r->next) {
		if (p >= r->at && p - r->at <= r->size && n <= r->size - (p - r->at)) is = true;
	}
	pthread_mutex_unlock(&lock);
	return is;
}

// mapping returns the mapping of exactly [p, p+n). The caller holds space_lock.
static Range *mapping(Ptr p, uint64_t n) {
	Range *r = range_of(p);
	return r && r->kind == MAPPED && r->at == p && r->size == n ? r : NULL;
}

static bool overlaps(Ptr p, uint64_t n) {
	for (Range *r = ranges; r; r = r->next) {
		if (p < r->at + r->size && r->at < p + n) return true;
	}
	return false;
}

API Result cuMemAddressReserve(Ptr *p, size_t size, size_t alignment, Ptr at, unsigned long long flags) {
	ENTER;
	if (flags || size == 0 || size % GRANULARITY || alignment > GRANULARITY || at) return INVALID_VALUE;
	Reservation *r = calloc(1, sizeof *r);
	r->size = size;
	r->at = reserve(size);
	if (!r->at) {
		free(r);
		return OUT_OF_MEMORY;
	}
	*p = r->at;
	pthread_mutex_lock(&lock);
	r->next = reservations;
	reservations = r;
	pthread_mutex_unlock(&lock);
	return OK;
}

API Result cuMemAddressFree(Ptr p, size_t size) {
	ENTER;
	pthread_mutex_lock(&space_lock);
	bool mapped = overlaps(p, size);
	pthread_mutex_unlock(&space_lock);
	if (mapped) return INVALID_VALUE;
	pthread_mutex_lock(&lock);
	Reservation **at = &reservations;
	while (*at && !((*at)->at == p && (*at)->size == size)) at = &(*at)->next;
	Reservation *r = *at;
	if (r) *at = r->next;
	pthread_mutex_unlock(&lock);
	if (!r) return INVALID_VALUE;
	unreserve(p, size);
	free(r);
	return OK;
}

API Result cuMemMap(Ptr p, size_t size, size_t offset, Memory *m, unsigned long long flags) {
	ENTER;
	if (flags || offset || !known(m) || size != m->size || !within(p, size)) return INVALID_VALUE;
	pthread_mutex_lock(&space_lock);
	bool taken = overlaps(p, size);
	pthread_mutex_unlock(&space_lock);
	if (taken) return INVALID_VALUE;
	Range *r = range_add(p, size, m->fd, MAPPED, m->device);
	if (!r) return MAP_FAILED_CODE;
	__atomic_add_fetch(&m->refs, 1, __ATOMIC_ACQ_REL);
	r->memory = m;
	return OK;
}

API Result cuMemUnmap(Ptr p, size_t size) {
	ENTER;
	drain_all();
	pthread_mutex_lock(&space_lock);
	Range *r = mapping(p, size);
	if (r) {
		drop(r->memory);
		range_remove(r);
	}
	pthread_mutex_unlock(&space_lock);
	return r ? OK : INVALID_VALUE;
}

// Access is CUmemAccessDesc.
typedef struct {
	Location location;
	int flags;
} Access;

API Result cuMemSetAccess(Ptr p, size_t size, const Access *a, size_t n) {
	ENTER;
	if (n != 1 || a->location.type != 1 || !valid_device(a->location.id)) return INVALID_VALUE;
	if (a->flags != 0 && a->flags != READ && a->flags != (READ | WRITE)) return INVALID_VALUE;
	pthread_mutex_lock(&space_lock);
	Range *r = mapping(p, size);
	if (r) r->access = a->flags;
	pthread_mutex_unlock(&space_lock);
	return r ? OK : INVALID_VALUE;
}
