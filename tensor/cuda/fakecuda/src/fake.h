// Types and functions that the files of the stand-in share. The list of files is in the
// package's doc.go.
#ifndef FAKE_H
#define FAKE_H
#define _GNU_SOURCE
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Codes of cuda.h that the stand-in returns.
enum {
	OK = 0,
	INVALID_VALUE = 1,
	OUT_OF_MEMORY = 2,
	NOT_INITIALIZED = 3,
	NO_DEVICE = 100,
	INVALID_DEVICE = 101,
	INVALID_CONTEXT = 201,
	MAP_FAILED_CODE = 205,
	PEER_UNSUPPORTED = 217,
	INVALID_PTX = 218,
	OPERATING_SYSTEM = 304,
	INVALID_HANDLE = 400,
	ILLEGAL_STATE = 401,
	NOT_FOUND = 500,
	NOT_READY = 600,
	PEER_ALREADY_ENABLED = 704,
	PEER_NOT_ENABLED = 705,
	ALREADY_REGISTERED = 712,
	NOT_REGISTERED = 713,
	NOT_SUPPORTED = 801,
	CAPTURE_UNSUPPORTED = 900,
	CAPTURE_INVALIDATED = 901,
	CAPTURE_MERGE = 902,
	CAPTURE_UNMATCHED = 903,
	CAPTURE_UNJOINED = 904,
	CAPTURE_ISOLATION = 905,
	CAPTURE_IMPLICIT = 906,
	CAPTURED_EVENT = 907,
	CAPTURE_WRONG_THREAD = 908,
	UPDATE_FAILED = 910,
};

#define API __attribute__((visibility("default")))
#define MAX_DEVICES 8

typedef int Result;
typedef uint64_t Ptr; // an address in a device's memory

// call.c: every function begins with one of these. ENTER returns a code that
// FAKECUDA_FAIL asks for, and refuses calls before cuInit. ENTER_CONTEXT also refuses
// calls of a thread without a context.
extern bool initialized;
Result enter(const char *name);
#define ENTER                            \
	do {                                 \
		Result r_ = enter(__func__);     \
		if (r_) return r_;               \
		if (!initialized) return NOT_INITIALIZED; \
	} while (0)
#define ENTER_CONTEXT                    \
	do {                                 \
		ENTER;                           \
		if (!current) return INVALID_CONTEXT; \
		if (current->lost) return context_end(); \
	} while (0)
// graph.c: ENTER_UNSAFE also refuses calls that captures forbid.
Result capture_refuses_unsafe(void);
#define ENTER_UNSAFE                     \
	do {                                 \
		ENTER_CONTEXT;                   \
		Result u_ = capture_refuses_unsafe(); \
		if (u_) return u_;               \
	} while (0)

// call.c: what exists now, for tests. The order is that of Counters in fakecuda.go.
enum { ALLOCATIONS, IMPORTS, HOST_RANGES, STREAMS, EVENTS, MEMORIES, GRAPHS, KINDS };
void count(int kind, int by);

// device.c
int device_count(void);
uint64_t memory_limit(void);
bool valid_device(int d);

// context.c: a primary context. The current one is a thread's.
typedef struct Context {
	int device, retained;
	int lost; // the code of a kernel that failed, which all later calls return
	uint32_t peers; // bit d: access to device d is enabled
} Context;
extern __thread Context *current;
bool valid_context(const Context *c);
Result context_end(void);
Context *primary(int device);

// space.c: ranges of device addresses, and where the host finds their bytes.
typedef enum { OWNED, IMPORTED, MAPPED, MODULE } Kind;
typedef struct Range {
	Ptr at;
	uint64_t size;
	char *bytes; // the host's mapping
	Kind kind;
	int device, fd;
	uint64_t inode, id;
	int opens;             // of an imported range
	int exporter;          // its process
	char *written;         // of memory of this process: the bytes that something wrote
	bool exported;         // others may write it, too
	void *memory;          // of a mapped range
	int access;            // of a mapped range: bit 0 read, bit 1 write
	struct Range *next;
} Range;
extern pthread_mutex_t space_lock;
extern Range *ranges; // guarded by space_lock
Ptr reserve(uint64_t size);
void unreserve(Ptr at, uint64_t size);
Range *range_add(Ptr at, uint64_t size, int fd, Kind kind, int device);
void range_remove(Range *r);
Range *range_of(Ptr p); // with space_lock held
enum { READ = 1, WRITE = 2 };
// device_bytes returns the bytes of [p, p+n), which must lie in one range; NULL if not.
// With WRITE they count as written.
char *device_bytes(Ptr p, uint64_t n, int access);
int new_file(uint64_t size, uint64_t *inode); // -1 if the system has no memory

// memory.c: the bytes of a device in use, up to memory_limit.
bool take(int device, uint64_t n);
void give(int device, uint64_t n);

// host.c
bool is_pinned(const void *p, uint64_t n);
char *pinned_bytes(Ptr p, uint64_t n, int access);
bool host_writable(void *p, uint64_t n); // false for memory registered as read-only

// stream.c: operations run in order on the stream's thread. The legacy stream, NULL, runs
// them in the caller after all other streams are idle. submit owns what is staged.
typedef struct Stream Stream;
typedef struct Event Event;
typedef struct Op {
	void (*run)(struct Op *);
	char *dst;
	const char *src;
	char *staged; // freed after the operation, in a graph with the graph
	uint64_t n, rows, dst_pitch, src_pitch;
	uint32_t value, sequence;
	void *object;
	struct Op *next;
} Op;
bool valid_stream(const Stream *s);
Result submit(Stream *s, const Op *op);
void drain(Stream *s);
void drain_all(void);

// event.c
uint32_t event_sequence(Event *e);
void event_wait(Event *e, uint32_t sequence);
bool valid_event(const Event *e);

#endif
