// Primary contexts, one a device, and the current one of each thread.
#include "graph.h"

static Context contexts[MAX_DEVICES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
__thread Context *current;

Context *primary(int device) { return &contexts[device]; }

bool valid_context(const Context *c) {
	for (int d = 0; d < device_count(); d++) {
		if (c == &contexts[d]) return c->retained > 0;
	}
	return false;
}

API Result cuDevicePrimaryCtxRetain(Context **c, int d) {
	ENTER;
	if (!valid_device(d)) return INVALID_DEVICE;
	pthread_mutex_lock(&lock);
	contexts[d].device = d;
	if (contexts[d].retained++ == 0) contexts[d].lost = OK;
	pthread_mutex_unlock(&lock);
	*c = &contexts[d];
	return OK;
}

API Result cuDevicePrimaryCtxRelease_v2(int d) {
	ENTER;
	if (!valid_device(d)) return INVALID_DEVICE;
	pthread_mutex_lock(&lock);
	bool held = contexts[d].retained > 0;
	if (held) contexts[d].retained--;
	pthread_mutex_unlock(&lock);
	return held ? OK : INVALID_CONTEXT;
}

API Result cuDevicePrimaryCtxGetState(int d, unsigned *flags, int *active) {
	ENTER;
	if (!valid_device(d)) return INVALID_DEVICE;
	*flags = 0;
	*active = contexts[d].retained > 0;
	return OK;
}

API Result cuCtxSetCurrent(Context *c) {
	ENTER;
	if (c && !valid_context(c)) return INVALID_CONTEXT;
	current = c;
	return OK;
}

API Result cuCtxGetCurrent(Context **c) {
	ENTER;
	*c = current;
	return OK;
}

API Result cuCtxGetDevice(int *d) {
	ENTER_CONTEXT;
	*d = current->device;
	return OK;
}

// context_end returns the code by which the current context was lost, or OK. A process
// that was told of the end may take its memory back, so no work is on its way then.
Result context_end(void) {
	int lost = current->lost;
	if (lost) drain_all();
	return lost;
}

API Result cuCtxSynchronize(void) {
	ENTER_CONTEXT;
	Result r = capture_refuses(ALL);
	if (r) return r;
	drain_all();
	return context_end();
}

API Result cuCtxGetStreamPriorityRange(int *least, int *greatest) {
	ENTER_CONTEXT;
	*least = 0;
	*greatest = -5;
	return OK;
}

API Result cuCtxEnablePeerAccess(Context *peer, unsigned flags) {
	ENTER_CONTEXT;
	if (flags) return INVALID_VALUE;
	if (!valid_context(peer)) return INVALID_CONTEXT;
	if (peer == current) return INVALID_DEVICE;
	uint32_t bit = 1u << peer->device;
	if (current->peers & bit) return PEER_ALREADY_ENABLED;
	current->peers |= bit;
	return OK;
}

API Result cuCtxDisablePeerAccess(Context *peer) {
	ENTER_CONTEXT;
	if (!valid_context(peer)) return INVALID_CONTEXT;
	uint32_t bit = 1u << peer->device;
	if (!(current->peers & bit)) return PEER_NOT_ENABLED;
	current->peers &= ~bit;
	return OK;
}
