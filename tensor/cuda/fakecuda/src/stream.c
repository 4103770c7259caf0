// Streams: a queue and a thread each. FAKECUDA_DELAY_US makes every operation late.
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "graph.h"

// A destroyed stream stays in the list, so that its use is found and a walk over the list
// needs no lock.
struct Stream {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	Op *first, **last;
	uint64_t submitted, done;
	bool destroyed, blocking;
	Place place; // in a capture
	pthread_t thread;
	Stream *next;
};

static Stream *streams;
static pthread_mutex_t streams_lock = PTHREAD_MUTEX_INITIALIZER;

static Stream *all(void) {
	pthread_mutex_lock(&streams_lock);
	Stream *s = streams;
	pthread_mutex_unlock(&streams_lock);
	return s;
}

bool valid_stream(const Stream *s) {
	if (!s) return true;
	for (Stream *x = all(); x; x = x->next) {
		if (x == s) return !__atomic_load_n(&x->destroyed, __ATOMIC_ACQUIRE);
	}
	return false;
}

Place *stream_place(Stream *s) { return &s->place; }

bool stream_blocks(const Stream *s) { return s->blocking; }

static void *work(void *arg) {
	Stream *s = arg;
	const char *late = getenv("FAKECUDA_DELAY_US");
	useconds_t delay = late ? atoi(late) : 0;
	pthread_mutex_lock(&s->lock);
	for (;;) {
		while (!s->first && !s->destroyed) pthread_cond_wait(&s->changed, &s->lock);
		Op *op = s->first;
		if (!op) break;
		pthread_mutex_unlock(&s->lock);
		if (delay) usleep(delay);
		op->run(op);
		pthread_mutex_lock(&s->lock);
		s->first = op->next;
		if (!s->first) s->last = &s->first;
		s->done++;
		free(op->staged);
		free(op);
		pthread_cond_broadcast(&s->changed);
	}
	pthread_mutex_unlock(&s->lock);
	return NULL;
}

void drain(Stream *s) {
	pthread_mutex_lock(&s->lock);
	uint64_t target = s->submitted;
	while (s->done < target) pthread_cond_wait(&s->changed, &s->lock);
	pthread_mutex_unlock(&s->lock);
}

void drain_all(void) {
	for (Stream *s = all(); s; s = s->next) drain(s);
}

Result submit(Stream *s, const Op *op) {
	Result r;
	if (capture_takes(s, op, &r)) return r;
	Op *o = malloc(sizeof *o);
	*o = *op;
	o->next = NULL;
	if (!s) {
		drain_all();
		o->run(o);
		free(o->staged);
		free(o);
		return OK;
	}
	pthread_mutex_lock(&s->lock);
	*s->last = o;
	s->last = &o->next;
	s->submitted++;
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->lock);
	return OK;
}

API Result cuStreamCreateWithPriority(Stream **out, unsigned flags, int priority) {
	ENTER_CONTEXT;
	(void)priority; // a hint: the driver moves it into its range
	if (flags > 1) return INVALID_VALUE;
	Stream *s = calloc(1, sizeof *s);
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->changed, NULL);
	s->last = &s->first;
	s->blocking = !(flags & 1);
	if (pthread_create(&s->thread, NULL, work, s) != 0) {
		free(s);
		return OUT_OF_MEMORY;
	}
	pthread_mutex_lock(&streams_lock);
	s->next = streams;
	streams = s;
	pthread_mutex_unlock(&streams_lock);
	count(STREAMS, 1);
	*out = s;
	return OK;
}

API Result cuStreamDestroy_v2(Stream *s) {
	ENTER_CONTEXT;
	if (!s || !valid_stream(s)) return INVALID_HANDLE;
	Result r = capture_refuses_stream(s);
	if (r) return r;
	pthread_mutex_lock(&s->lock);
	__atomic_store_n(&s->destroyed, true, __ATOMIC_RELEASE);
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->lock);
	pthread_join(s->thread, NULL); // after the work that is queued
	count(STREAMS, -1);
	return OK;
}

API Result cuStreamSynchronize(Stream *s) {
	ENTER_CONTEXT;
	if (!valid_stream(s)) return INVALID_HANDLE;
	Result r = capture_refuses_stream(s);
	if (r) return r;
	if (s) drain(s);
	else drain_all();
	return context_end();
}

static bool idle(Stream *s) {
	pthread_mutex_lock(&s->lock);
	bool is = s->done == s->submitted;
	pthread_mutex_unlock(&s->lock);
	return is;
}

API Result cuStreamQuery(Stream *s) {
	ENTER_CONTEXT;
	if (!valid_stream(s)) return INVALID_HANDLE;
	Result r = capture_refuses_stream(s);
	if (r) return r;
	for (Stream *x = s ? s : all(); x; x = s ? NULL : x->next) {
		if (!idle(x)) return NOT_READY;
	}
	return context_end();
}

static void run_wait_event(Op *op) { event_wait(op->object, op->sequence); }

API Result cuStreamWaitEvent(Stream *s, Event *e, unsigned flags) {
	ENTER_CONTEXT;
	if (flags) return INVALID_VALUE;
	if (!valid_stream(s) || !valid_event(e)) return INVALID_HANDLE;
	Result r;
	if (capture_waits(s, e, &r)) return r;
	return submit(s, &(Op){.run = run_wait_event, .object = e, .sequence = event_sequence(e)});
}

static void run_write(Op *op) { __atomic_store_n((uint32_t *)op->dst, op->value, __ATOMIC_RELEASE); }

static void run_wait(Op *op) {
	while ((int32_t)(__atomic_load_n((uint32_t *)op->dst, __ATOMIC_ACQUIRE) - op->value) < 0) usleep(50);
}

static Result value(Stream *s, Ptr p, uint32_t v, void (*run)(Op *)) {
	if (!valid_stream(s)) return INVALID_HANDLE;
	char *at = device_bytes(p, 4, READ | WRITE);
	if (!at || p & 3) return INVALID_VALUE;
	return submit(s, &(Op){.run = run, .dst = at, .value = v});
}

API Result cuStreamWriteValue32_v2(Stream *s, Ptr p, uint32_t v, unsigned flags) {
	ENTER_CONTEXT;
	if (flags) return NOT_SUPPORTED;
	return value(s, p, v, run_write);
}

API Result cuStreamWaitValue32_v2(Stream *s, Ptr p, uint32_t v, unsigned flags) {
	ENTER_CONTEXT;
	if (flags) return NOT_SUPPORTED; // the other comparisons
	return value(s, p, v, run_wait);
}
