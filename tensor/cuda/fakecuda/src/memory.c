// Allocations, up to the device's limit, and attributes of pointers.
#include "fake.h"

#include <unistd.h>

static uint64_t used[MAX_DEVICES]; // guarded by used_lock
static pthread_mutex_t used_lock = PTHREAD_MUTEX_INITIALIZER;

static uint64_t rounded(uint64_t n) { return (n + 511) & ~511ull; }

bool take(int device, uint64_t n) {
	pthread_mutex_lock(&used_lock);
	bool fits = n <= memory_limit() && used[device] <= memory_limit() - n;
	if (fits) used[device] += n;
	pthread_mutex_unlock(&used_lock);
	return fits;
}

void give(int device, uint64_t n) {
	pthread_mutex_lock(&used_lock);
	used[device] -= n;
	pthread_mutex_unlock(&used_lock);
}

API Result cuMemGetInfo_v2(size_t *free_bytes, size_t *total) {
	ENTER_CONTEXT;
	pthread_mutex_lock(&used_lock);
	*total = memory_limit();
	*free_bytes = *total - used[current->device];
	pthread_mutex_unlock(&used_lock);
	return OK;
}

API Result cuMemAlloc_v2(Ptr *p, size_t n) {
	ENTER_UNSAFE;
	if (n == 0) return INVALID_VALUE;
	if (n > memory_limit() || !take(current->device, rounded(n))) return OUT_OF_MEMORY;
	uint64_t inode;
	int fd = new_file(n, &inode);
	Ptr at = fd < 0 ? 0 : reserve(n);
	Range *r = at ? range_add(at, n, fd, OWNED, current->device) : NULL;
	if (!r) {
		if (at) unreserve(at, n);
		if (fd >= 0) close(fd);
		give(current->device, rounded(n));
		return OUT_OF_MEMORY;
	}
	r->inode = inode;
	count(ALLOCATIONS, 1);
	*p = at;
	return OK;
}

API Result cuMemFree_v2(Ptr p) {
	ENTER_UNSAFE;
	drain_all(); // as the driver does: no work of any stream uses the memory any more
	pthread_mutex_lock(&space_lock);
	Range *r = range_of(p);
	if (!r || r->at != p || r->kind != OWNED) {
		pthread_mutex_unlock(&space_lock);
		return INVALID_VALUE;
	}
	give(r->device, rounded(r->size));
	close(r->fd);
	unreserve(r->at, r->size);
	range_remove(r);
	pthread_mutex_unlock(&space_lock);
	count(ALLOCATIONS, -1);
	return OK;
}

API Result cuMemGetAddressRange_v2(Ptr *base, size_t *size, Ptr p) {
	ENTER_CONTEXT;
	pthread_mutex_lock(&space_lock);
	Range *r = range_of(p);
	if (r) {
		*base = r->at;
		*size = r->size;
	}
	pthread_mutex_unlock(&space_lock);
	return r ? OK : NOT_FOUND;
}

API Result cuPointerGetAttribute(void *value, int attribute, Ptr p) {
	ENTER_CONTEXT;
	Result result = OK;
	pthread_mutex_lock(&space_lock);
	Range *r = range_of(p);
	if (!r) {
		result = INVALID_VALUE;
	} else {
		switch (attribute) {
		case 1: *(Context **)value = primary(r->device); break;
		case 2: *(uint32_t *)value = 2; break; // device memory
		case 3: *(Ptr *)value = p; break;
		case 7: *(uint64_t *)value = r->id; break;
		case 9: *(int *)value = r->device; break;
		case 10: *(bool *)value = r->kind == OWNED; break; // legacy handles
		case 11: *(Ptr *)value = r->at; break;
		case 12: *(uint64_t *)value = r->size; break;
		default: result = INVALID_VALUE;
		}
	}
	pthread_mutex_unlock(&space_lock);
	return result;
}
