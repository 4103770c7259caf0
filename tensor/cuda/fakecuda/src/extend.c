// The door for stand-ins of libraries over the driver: their work runs in the streams of
// this one, in captures and graphs too. It counts as no call of a program.
#include <stdlib.h>
#include <string.h>

#include "graph.h"

typedef Result (*Work)(const char *work);

static void run_work(Op *op) {
	Context *c = (Context *)op->src;
	Result r = c->lost ? c->lost : ((Work)op->object)(op->staged);
	if (r && !c->lost) c->lost = r;
}

// fakecudaSubmit puts run(work) into a stream. It owns work, which malloc gave. A code
// that run returns is that of a kernel which failed.
API Result fakecudaSubmit(Stream *s, Work run, char *work) {
	Result r = !initialized ? NOT_INITIALIZED : !current ? INVALID_CONTEXT : current->lost ? context_end() : OK;
	if (r == OK && !valid_stream(s)) r = INVALID_HANDLE;
	if (r) {
		free(work);
		return r;
	}
	return submit(s, &(Op){.run = run_work, .object = (void *)run, .src = (char *)current, .staged = work});
}

// fakecudaBytes returns the bytes of [p, p+n) of a device, NULL where they are no range.
API char *fakecudaBytes(Ptr p, uint64_t n, int access) { return device_bytes(p, n, access); }

// fakecudaWritten reports whether something wrote all of [p, p+n), which is a range.
API bool fakecudaWritten(Ptr p, uint64_t n) {
	pthread_mutex_lock(&space_lock);
	Range *r = range_of(p);
	const char *w = r && !r->exported ? r->written : NULL;
	bool all = !w || !memchr(w + (p - r->at), 0, n);
	pthread_mutex_unlock(&space_lock);
	return all;
}
