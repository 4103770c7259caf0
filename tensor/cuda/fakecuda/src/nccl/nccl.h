// Types that the files of the stand-in for libnccl.so share. The list of files is in the
// package's doc.go.
#ifndef FAKE_NCCL_H
#define FAKE_NCCL_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Codes of nccl.h that the stand-in returns.
typedef enum {
	SUCCESS = 0,
	UNHANDLED_CUDA_ERROR = 1,
	SYSTEM_ERROR = 2,
	INVALID_ARGUMENT = 4,
	INVALID_USAGE = 5,
	IN_PROGRESS = 7,
} Status;

#define API __attribute__((visibility("default")))

typedef uint64_t Ptr; // an address in a device's memory
enum { READ = 1, WRITE = 2 };
enum { ILLEGAL_ADDRESS = 700, LAUNCH_FAILED = 719 }; // codes of the driver for a kernel

// link.c: the driver's library in the folder of this one.
typedef struct {
	int (*submit)(void *stream, int (*run)(const char *), char *work);
	char *(*bytes)(Ptr p, uint64_t n, int access);
	bool (*written)(Ptr p, uint64_t n);
	int (*device)(int *d);
	int (*alloc)(Ptr *p, size_t n);
	int (*free)(Ptr p);
} Driver;
const Driver *driver(void);

// fail.c: every function begins with enter, which returns a code that FAKENCCL_FAIL asks
// for. failed notes the text of ncclGetLastError and returns the code.
Status enter(const char *name);
Status failed(Status s, const char *format, ...) __attribute__((format(printf, 2, 3)));

// What the ranks of a communicator share: memory of the process that made the id.
enum { MAX_RANKS = 16, SLOT = 128 << 10, BOX = 32 << 10 };

typedef struct {
	int32_t process, device; // process is 0 before the rank has joined
	uint64_t arrived;        // how many barriers it has come to
	uint64_t does[2];        // what it does at the last two
} Member;

// Box is what one rank sends to another: a part at a time.
typedef struct {
	uint64_t sent, taken; // parts
	uint64_t bytes;       // of all parts of the message
} Box;

typedef struct {
	uint64_t magic;
	int32_t ranks; // 0 before the first has joined
	Member members[MAX_RANKS];
	Box boxes[MAX_RANKS][MAX_RANKS]; // by sender and receiver
	char slots[MAX_RANKS][SLOT];
	char parts[MAX_RANKS][MAX_RANKS][BOX];
} Shared;

typedef struct {
	char magic[8];
	int32_t process, fd;
	uint64_t inode;
	char rest[104];
} Id;
_Static_assert(sizeof(Id) == 128, "as in nccl.h");

// Config is the ncclConfig_t of 2.14. Newer ones have more fields behind these.
typedef struct {
	size_t size;
	uint32_t magic, version;
	int32_t blocking;
} Config;

typedef struct Comm {
	int rank, ranks, device, fd;
	Id id;
	Shared *shared;
	Ptr held;       // memory of the device, as the library has
	int32_t state;  // a Status, which the thread that joins changes
	bool aborted;   // work that waits for other ranks ends
	int32_t unfinished; // groups that streams have not come past
	uint64_t steps; // barriers so far, of the stream's thread
	struct Comm *next;
} Comm;
bool comm_exists(const Comm *c);

// group.c: calls between ncclGroupStart and ncclGroupEnd are one piece of work.
typedef enum { ALL_REDUCE = 1, ALL_GATHER, REDUCE_SCATTER, BROADCAST, REDUCE, SEND, RECV } Kind;

typedef struct {
	Kind kind;
	Ptr src, dst;
	uint64_t count;
	int type, op, peer; // peer is a root, or the other end
	uint64_t done;      // bytes, of SEND and RECV
} Call;

typedef struct {
	Comm *comm;
	int count;
	Call calls[];
} Work;

// run.c
int run(const char *work);

// fold.c
uint64_t size_of(int type); // 0 for none
void fold(char *into, const char *with, uint64_t count, int type, int op);

#endif
