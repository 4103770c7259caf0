// Memory of other processes. A handle names a whole allocation. Opening it twice gives
// the same address, and it is gone after as many closes.
#include <unistd.h>

#include "handle.h"

API Result cuIpcGetMemHandle(Bytes64 *out, Ptr p) {
	ENTER_CONTEXT;
	Result result = INVALID_VALUE;
	pthread_mutex_lock(&space_lock);
	Range *r = range_of(p);
	if (r && r->kind == OWNED) {
		r->exported = true;
		*out = handle_bytes((Handle){
			.kind = HANDLE_MEMORY, .process = getpid(), .fd = r->fd, .device = r->device, .size = r->size, .inode = r->inode});
		result = OK;
	}
	pthread_mutex_unlock(&space_lock);
	return result;
}

static Range *opened(const Handle *h) {
	for (Range *r = ranges; r; r = r->next) {
		if (r->kind == IMPORTED && r->inode == h->inode && r->exporter == h->process) return r;
	}
	return NULL;
}

API Result cuIpcOpenMemHandle_v2(Ptr *out, Bytes64 bytes, unsigned flags) {
	ENTER_UNSAFE;
	Handle h;
	if (flags > 1 || !handle_parse(&h, bytes, HANDLE_MEMORY)) return INVALID_VALUE;
	if (h.process == getpid() || handle_foreign(&h)) return INVALID_CONTEXT;
	pthread_mutex_lock(&space_lock);
	Range *r = opened(&h);
	if (r) {
		r->opens++;
		*out = r->at;
	}
	pthread_mutex_unlock(&space_lock);
	if (r) return OK;
	int fd = handle_open(&h);
	if (fd < 0) return INVALID_HANDLE;
	Ptr at = reserve(h.size);
	r = at ? range_add(at, h.size, fd, IMPORTED, h.device) : NULL;
	if (!r) {
		if (at) unreserve(at, h.size);
		close(fd);
		return MAP_FAILED_CODE;
	}
	r->opens = 1;
	r->inode = h.inode;
	r->exporter = h.process;
	count(IMPORTS, 1);
	*out = at;
	return OK;
}

API Result cuIpcCloseMemHandle(Ptr p) {
	ENTER_UNSAFE;
	drain_all();
	pthread_mutex_lock(&space_lock);
	Range *r = range_of(p);
	bool valid = r && r->kind == IMPORTED && r->at == p;
	if (valid && --r->opens == 0) {
		close(r->fd);
		unreserve(r->at, r->size);
		range_remove(r);
		count(IMPORTS, -1);
	}
	pthread_mutex_unlock(&space_lock);
	return valid ? OK : INVALID_VALUE;
}
