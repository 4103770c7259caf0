// Events: a page of shared memory each, so that other processes can wait for them.
#include "fake.h"

#include <limits.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "graph.h"
#include "handle.h"

enum { DISABLE_TIMING = 2, INTERPROCESS = 4 };

// Page counts how often the event was recorded, and how many of these were reached.
typedef struct {
	uint32_t recorded, reached;
	uint64_t nanoseconds; // when the last one was reached
} Page;

// A destroyed event stays in the list, so that its use is found.
struct Event {
	Page *page;
	unsigned flags;
	int fd;
	uint64_t inode;
	bool destroyed;
	Place place; // in a capture
	Event *next;
};

static Event *events;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

bool valid_event(const Event *e) {
	pthread_mutex_lock(&lock);
	Event *x = events;
	while (x && x != e) x = x->next;
	bool valid = x && !x->destroyed;
	pthread_mutex_unlock(&lock);
	return valid;
}

Place *event_place(Event *e) { return &e->place; }

uint32_t event_sequence(Event *e) { return __atomic_load_n(&e->page->recorded, __ATOMIC_ACQUIRE); }

static bool reached(Event *e, uint32_t sequence) {
	return (int32_t)(__atomic_load_n(&e->page->reached, __ATOMIC_ACQUIRE) - sequence) >= 0;
}

void event_wait(Event *e, uint32_t sequence) {
	while (!reached(e, sequence)) {
		uint32_t seen = __atomic_load_n(&e->page->reached, __ATOMIC_ACQUIRE);
		if ((int32_t)(seen - sequence) >= 0) return;
		syscall(SYS_futex, &e->page->reached, FUTEX_WAIT, seen, NULL, NULL, 0);
	}
}

// add makes an event of the page in fd, which it owns from here on.
static Event *add(int fd, uint64_t inode, unsigned flags) {
	Page *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (page == MAP_FAILED) {
		close(fd);
		return NULL;
	}
	Event *e = calloc(1, sizeof *e);
	*e = (Event){.page = page, .flags = flags, .fd = fd, .inode = inode};
	pthread_mutex_lock(&lock);
	e->next = events;
	events = e;
	pthread_mutex_unlock(&lock);
	count(EVENTS, 1);
	return e;
}

API Result cuEventCreate(Event **out, unsigned flags) {
	ENTER_CONTEXT;
	if (flags & ~7u || ((flags & INTERPROCESS) && !(flags & DISABLE_TIMING))) return INVALID_VALUE;
	uint64_t inode;
	int fd = new_file(4096, &inode);
	Event *e = fd < 0 ? NULL : add(fd, inode, flags);
	if (!e) return OUT_OF_MEMORY;
	*out = e;
	return OK;
}

API Result cuEventDestroy_v2(Event *e) {
	ENTER_CONTEXT;
	if (!valid_event(e)) return INVALID_HANDLE;
	drain_all();
	pthread_mutex_lock(&lock);
	e->destroyed = true;
	pthread_mutex_unlock(&lock);
	munmap(e->page, 4096);
	close(e->fd);
	count(EVENTS, -1);
	return OK;
}

static void run_record(Op *op) {
	Event *e = op->object;
	struct timespec at;
	clock_gettime(CLOCK_MONOTONIC, &at);
	e->page->nanoseconds = at.tv_sec * 1000000000ull + at.tv_nsec;
	// Records of several processes may be reached in any order: none is undone.
	uint32_t now = __atomic_load_n(&e->page->reached, __ATOMIC_ACQUIRE);
	while ((int32_t)(op->sequence - now) > 0 &&
		!__atomic_compare_exchange_n(&e->page->reached, &now, op->sequence, false, __ATOMIC_RELEASE, __ATOMIC_ACQUIRE));
	syscall(SYS_futex, &e->page->reached, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

API Result cuEventRecord(Event *e, Stream *s) {
	ENTER_CONTEXT;
	if (!valid_event(e) || !valid_stream(s)) return INVALID_HANDLE;
	if (capture_records(s, e)) return OK;
	uint32_t sequence = __atomic_add_fetch(&e->page->recorded, 1, __ATOMIC_ACQ_REL);
	return submit(s, &(Op){.run = run_record, .object = e, .sequence = sequence});
}

API Result cuEventQuery(Event *e) {
	ENTER_CONTEXT;
	if (!valid_event(e)) return INVALID_HANDLE;
	Result r = capture_refuses_event(e);
	if (r) return r;
	return reached(e, event_sequence(e)) ? OK : NOT_READY;
}

API Result cuEventSynchronize(Event *e) {
	ENTER_CONTEXT;
	if (!valid_event(e)) return INVALID_HANDLE;
	Result r = capture_refuses_event(e);
	if (r) return r;
	event_wait(e, event_sequence(e));
	return context_end();
}

API Result cuEventElapsedTime(float *ms, Event *start, Event *end) {
	ENTER_CONTEXT;
	if (!valid_event(start) || !valid_event(end)) return INVALID_HANDLE;
	if ((start->flags | end->flags) & DISABLE_TIMING) return INVALID_HANDLE;
	if (event_captured(start) || event_captured(end)) return CAPTURED_EVENT;
	if (!event_sequence(start) || !event_sequence(end)) return INVALID_HANDLE;
	if (!reached(start, event_sequence(start)) || !reached(end, event_sequence(end))) return NOT_READY;
	*ms = ((double)end->page->nanoseconds - (double)start->page->nanoseconds) / 1e6;
	return OK;
}

API Result cuIpcGetEventHandle(Bytes64 *out, Event *e) {
	ENTER_CONTEXT;
	if (!valid_event(e) || !(e->flags & INTERPROCESS)) return INVALID_HANDLE;
	*out = handle_bytes((Handle){.kind = HANDLE_EVENT, .process = getpid(), .fd = e->fd, .inode = e->inode});
	return OK;
}

API Result cuIpcOpenEventHandle(Event **out, Bytes64 bytes) {
	ENTER_CONTEXT;
	Handle h;
	if (!handle_parse(&h, bytes, HANDLE_EVENT)) return INVALID_VALUE;
	if (h.process == getpid() || handle_foreign(&h)) return INVALID_CONTEXT;
	int fd = handle_open(&h);
	if (fd < 0) return INVALID_HANDLE;
	Event *e = add(fd, h.inode, DISABLE_TIMING | INTERPROCESS);
	if (!e) return MAP_FAILED_CODE;
	*out = e;
	return OK;
}
