//go:build cgo

/* The functions of ringside.h. Each refuses to run in a forked child, where the threads
 * of Go's runtime are missing, and passes on to cgo_unsafe.go. */

#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "_cgo_export.h"

int ringside_forked; /* written by the child before it runs anything else */

static void in_child(void) { ringside_forked = 1; }

/* A library that is loaded registers its handler before any function can be called. */
__attribute__((constructor)) static void loaded(void) { pthread_atfork(NULL, NULL, in_child); }

#define REFUSE_FORKED \
	if (ringside_forked) \
	return strdup(RINGSIDE_FORKED_TEXT)

/* The group of this thread's ringside_call that is under way, 0 for none. A signal handler
 * runs on the thread that waits: there another call of the group would wait for that one. */
static __thread ringside_handle calling;

#define REFUSE_NESTED(group) \
	if (calling && calling == (group)) \
	return strdup(RINGSIDE_NESTED_TEXT)

uint32_t ringside_version(void) { return RINGSIDE_VERSION; }

void ringside_free(char *text) { free(text); }

char *ringside_open(int32_t rank, int32_t size, int64_t timeout_ms, const char *name,
	const void *secret, int64_t secret_bytes, ringside_handle *opening) {
	REFUSE_FORKED;
	return goOpen(rank, size, timeout_ms, (char *)name, (void *)secret, secret_bytes, opening);
}

char *ringside_open_step(ringside_handle opening, int64_t wait_ms, int32_t *state,
	void *value, int64_t *bytes, ringside_handle *group) {
	REFUSE_FORKED;
	return goOpenStep(opening, wait_ms, state, value, bytes, group);
}

char *ringside_open_give(ringside_handle opening, const void *values, const int64_t *bytes,
	int32_t ranks) {
	REFUSE_FORKED;
	return goOpenGive(opening, (void *)values, (int64_t *)bytes, ranks);
}

char *ringside_close(ringside_handle handle) {
	REFUSE_FORKED;
	REFUSE_NESTED(handle);
	return goClose(handle);
}

char *ringside_memory(ringside_handle group, int64_t bytes, void **memory) {
	REFUSE_FORKED;
	return goMemory(group, bytes, memory);
}

char *ringside_forget(ringside_handle group, void *memory) {
	REFUSE_FORKED;
	return goForget(group, memory);
}

char *ringside_call(const ringside_request *request) {
	REFUSE_FORKED;
	REFUSE_NESTED(request->group);
	ringside_handle outer = calling;
	calling = request->group;
	char *text = goCall((ringside_request *)request);
	calling = outer;
	return text;
}

char *ringside_start(const ringside_request *request, ringside_handle *work) {
	REFUSE_FORKED;
	REFUSE_NESTED(request->group);
	return goStart((ringside_request *)request, work);
}

char *ringside_wait(ringside_handle work, int64_t wait_ms, int32_t *state) {
	REFUSE_FORKED;
	return goWait(work, wait_ms, state, NULL);
}

char *ringside_wait_from(ringside_handle work, int64_t wait_ms, int32_t *state, int32_t *from) {
	REFUSE_FORKED;
	return goWait(work, wait_ms, state, from);
}

/* Of Python. Only the first thread runs handlers, so only it asks and is answered. */
static int (*py_ensure)(void);
static void (*py_release)(int);
static int (*py_check)(void);
static void (*py_fetch)(void **, void **, void **);
static int raised;
static void *raised_type, *raised_value, *raised_traceback;

void ringside_on_wait(int (*ensure)(void), void (*release)(int), int (*check)(void),
	void (*fetch)(void **, void **, void **)) {
	py_ensure = ensure;
	py_release = release;
	py_fetch = fetch;
	py_check = check;
}

/* ringside_interrupted reports whether a handler raised. Go calls it. */
int ringside_interrupted(void) {
	if (!py_check || syscall(SYS_gettid) != getpid())
		return 0;
	int gil = py_ensure();
	int bad = py_check() != 0;
	if (bad) {
		raised = 1;
		py_fetch(&raised_type, &raised_value, &raised_traceback);
	}
	py_release(gil);
	return bad;
}

int32_t ringside_raised(void **type, void **value, void **traceback) {
	if (!raised || syscall(SYS_gettid) != getpid())
		return 0;
	raised = 0;
	*type = raised_type;
	*value = raised_value;
	*traceback = raised_traceback;
	return 1;
}
