// Calls: those of a group are checked when they are made, and become one piece of work of
// the stream at the end of the group.
#include <stdlib.h>
#include <string.h>

#include "nccl.h"

enum { MAX_CALLS = 4096, OPS = 4 };

static __thread struct {
	int depth, count;
	Status first; // failure of a call
	Comm *comm;
	void *stream;
	Call calls[MAX_CALLS];
} group;

API Status ncclGroupStart(void) {
	Status s = enter(__func__);
	if (!s) group.depth++;
	return s;
}

API Status ncclGroupEnd(void) {
	Status s = enter(__func__);
	if (!group.depth) return failed(INVALID_USAGE, "ncclGroupEnd: not in a group call.");
	if (--group.depth) return s;
	Status first = group.first ? group.first : s;
	int count = group.count;
	group.first = SUCCESS;
	group.count = 0;
	if (first || !count) return first;
	Work *w = malloc(sizeof *w + count * sizeof(Call));
	*w = (Work){.comm = group.comm, .count = count};
	memcpy(w->calls, group.calls, count * sizeof(Call));
	__atomic_add_fetch(&w->comm->unfinished, 1, __ATOMIC_SEQ_CST);
	if (driver()->submit(group.stream, run, (char *)w) != 0) {
		__atomic_sub_fetch(&group.comm->unfinished, 1, __ATOMIC_SEQ_CST);
		return failed(UNHANDLED_CUDA_ERROR, "Cuda failure: the stream takes no work");
	}
	return SUCCESS;
}

static Status check(const Comm *c, const Call *x) {
	if (!comm_exists(c)) return failed(INVALID_ARGUMENT, "no communicator");
	if (__atomic_load_n(&c->state, __ATOMIC_ACQUIRE) != SUCCESS) return failed(INVALID_ARGUMENT, "the communicator is not ready");
	if (!size_of(x->type)) return failed(INVALID_ARGUMENT, "invalid type %d", x->type);
	if (x->op < 0 || x->op >= OPS) return failed(INVALID_ARGUMENT, "invalid reduction operation %d", x->op);
	if (x->peer < 0 || x->peer >= c->ranks) return failed(INVALID_ARGUMENT, "invalid root or peer %d (root should be in the 0..%d range)", x->peer, c->ranks);
	if (group.count == MAX_CALLS) return failed(INVALID_USAGE, "the stand-in has at most %d calls a group", MAX_CALLS);
	return SUCCESS;
}

static Status add(const char *name, Comm *c, void *stream, Call x) {
	if (!group.depth) return failed(INVALID_USAGE, "the stand-in takes calls of groups alone");
	Status s = enter(name);
	if (!s) s = check(c, &x);
	if (!s && group.count && (group.comm != c || group.stream != stream)) s = failed(INVALID_USAGE, "the stand-in has one communicator and one stream a group");
	if (s) {
		if (!group.first) group.first = s;
		return s;
	}
	group.comm = c;
	group.stream = stream;
	group.calls[group.count++] = x;
	return SUCCESS;
}

API Status ncclAllReduce(Ptr src, Ptr dst, size_t count, int type, int op, Comm *c, void *stream) {
	return add(__func__, c, stream, (Call){.kind = ALL_REDUCE, .src = src, .dst = dst, .count = count, .type = type, .op = op});
}

API Status ncclAllGather(Ptr src, Ptr dst, size_t count, int type, Comm *c, void *stream) {
	return add(__func__, c, stream, (Call){.kind = ALL_GATHER, .src = src, .dst = dst, .count = count, .type = type});
}

API Status ncclReduceScatter(Ptr src, Ptr dst, size_t count, int type, int op, Comm *c, void *stream) {
	return add(__func__, c, stream, (Call){.kind = REDUCE_SCATTER, .src = src, .dst = dst, .count = count, .type = type, .op = op});
}

API Status ncclBroadcast(Ptr src, Ptr dst, size_t count, int type, int root, Comm *c, void *stream) {
	return add(__func__, c, stream, (Call){.kind = BROADCAST, .src = src, .dst = dst, .count = count, .type = type, .peer = root});
}

API Status ncclReduce(Ptr src, Ptr dst, size_t count, int type, int op, int root, Comm *c, void *stream) {
	return add(__func__, c, stream, (Call){.kind = REDUCE, .src = src, .dst = dst, .count = count, .type = type, .op = op, .peer = root});
}

API Status ncclSend(Ptr src, size_t count, int type, int peer, Comm *c, void *stream) {
	return add(__func__, c, stream, (Call){.kind = SEND, .src = src, .count = count, .type = type, .peer = peer});
}

API Status ncclRecv(Ptr dst, size_t count, int type, int peer, Comm *c, void *stream) {
	return add(__func__, c, stream, (Call){.kind = RECV, .dst = dst, .count = count, .type = type, .peer = peer});
}
