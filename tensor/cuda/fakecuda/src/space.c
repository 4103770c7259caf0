// The address space of devices. Addresses are reserved without access, so a host that
// follows one faults. The bytes lie in files without a name, mapped elsewhere. Between
// two ranges a gap of addresses belongs to none, so a copy past an end is found.
#include "fake.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define GAP (2ull << 20)

pthread_mutex_t space_lock = PTHREAD_MUTEX_INITIALIZER;
Range *ranges;

static uint64_t pages(uint64_t n) { return (n + 4095) & ~4095ull; }

// reserve returns an address with a gap after it, at a multiple of 2 MiB; 0 if there is
// none.
Ptr reserve(uint64_t size) {
	uint64_t length = pages(size) + 2 * GAP;
	char *p = mmap(NULL, length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED) return 0;
	uint64_t at = ((uint64_t)p + GAP - 1) & ~(GAP - 1);
	if (at > (uint64_t)p) munmap(p, at - (uint64_t)p);
	uint64_t end = at + pages(size) + GAP, have = (uint64_t)p + length;
	if (have > end) munmap((void *)end, have - end);
	return at;
}

void unreserve(Ptr at, uint64_t size) { munmap((void *)at, pages(size) + GAP); }

int new_file(uint64_t size, uint64_t *inode) {
	int fd = memfd_create("fakecuda", MFD_CLOEXEC);
	struct stat st;
	if (fd < 0) return -1;
	if (ftruncate(fd, pages(size)) != 0 || fstat(fd, &st) != 0) {
		close(fd);
		return -1;
	}
	*inode = st.st_ino;
	return fd;
}

// range_add maps size bytes of fd for the host and lists them at the address at.
Range *range_add(Ptr at, uint64_t size, int fd, Kind kind, int device) {
	static uint64_t ids;
	void *bytes = mmap(NULL, pages(size), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (bytes == MAP_FAILED) return NULL;
	Range *r = calloc(1, sizeof *r);
	*r = (Range){.at = at, .size = size, .bytes = bytes, .kind = kind, .device = device, .fd = fd};
	r->access = kind == MAPPED ? 0 : READ | WRITE;
	if (kind == OWNED) {
		r->written = mmap(NULL, pages(size), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (r->written == MAP_FAILED) r->written = NULL;
	}
	pthread_mutex_lock(&space_lock);
	r->id = ++ids;
	r->next = ranges;
	ranges = r;
	pthread_mutex_unlock(&space_lock);
	return r;
}

// range_remove takes r from the list and frees it. The caller holds space_lock, and owns
// the address and the file.
void range_remove(Range *r) {
	for (Range **p = &ranges; *p; p = &(*p)->next) {
		if (*p == r) {
			*p = r->next;
			break;
		}
	}
	munmap(r->bytes, pages(r->size));
	if (r->written) munmap(r->written, pages(r->size));
	free(r);
}

Range *range_of(Ptr p) {
	for (Range *r = ranges; r; r = r->next) {
		if (p >= r->at && p - r->at < r->size) return r;
	}
	return NULL;
}

char *device_bytes(Ptr p, uint64_t n, int access) {
	char *found = NULL;
	pthread_mutex_lock(&space_lock);
	Range *r = range_of(p);
	if (r && n <= r->size - (p - r->at) && (r->access & access) == access) {
		found = r->bytes + (p - r->at);
		if (r->written && (access & WRITE)) memset(r->written + (p - r->at), 1, n);
	}
	pthread_mutex_unlock(&space_lock);
	return found ? found : pinned_bytes(p, n, access);
}
