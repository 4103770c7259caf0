// Communicators: an id names memory of the process that made it, in which the ranks meet.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "nccl.h"

enum { HELD = 64 << 10 };

static const char magic[8] = "FAKENCC";
static const uint32_t config_magic = 0xcafebeef;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static Comm *comms; // guarded by lock

bool comm_exists(const Comm *c) {
	pthread_mutex_lock(&lock);
	const Comm *x = comms;
	while (x && x != c) x = x->next;
	pthread_mutex_unlock(&lock);
	return x != NULL;
}

static void forget(Comm *c) {
	pthread_mutex_lock(&lock);
	for (Comm **x = &comms; *x; x = &(*x)->next)
		if (*x == c) {
			*x = c->next;
			break;
		}
	pthread_mutex_unlock(&lock);
}

API Status ncclGetUniqueId(Id *id) {
	struct stat st;
	Status s = enter(__func__);
	if (s) return s;
	if (!id) return failed(INVALID_ARGUMENT, "uniqueId argument is NULL");
	int fd = memfd_create("fake NCCL", MFD_CLOEXEC);
	if (fd < 0 || ftruncate(fd, sizeof(Shared)) != 0 || fstat(fd, &st) != 0) return failed(SYSTEM_ERROR, "no memory for an id");
	memset(id, 0, sizeof *id);
	memcpy(id->magic, magic, sizeof magic);
	id->process = getpid();
	id->fd = fd;
	id->inode = st.st_ino;
	return SUCCESS;
}

// open_shared maps what an id names.
static Shared *open_shared(const Id *id) {
	char path[64];
	struct stat st;
	snprintf(path, sizeof path, "/proc/%d/fd/%d", id->process, id->fd);
	int fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0) return NULL;
	Shared *shared = MAP_FAILED;
	if (fstat(fd, &st) == 0 && st.st_ino == id->inode && st.st_size == sizeof(Shared))
		shared = mmap(NULL, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	return shared == MAP_FAILED ? NULL : shared;
}

// joined waits for the other ranks, and returns what the communicator's state is then.
static Status joined(Comm *c) {
	Shared *s = c->shared;
	for (int r = 0; r < c->ranks; r++)
		while (!__atomic_load_n(&s->members[r].process, __ATOMIC_ACQUIRE)) {
			if (__atomic_load_n(&c->aborted, __ATOMIC_ACQUIRE)) return SYSTEM_ERROR;
			nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
		}
	for (int r = 0; r < c->ranks; r++)
		if (r != c->rank && s->members[r].device == c->device) return INVALID_USAGE;
	return SUCCESS;
}

static void *join(void *comm) {
	Comm *c = comm;
	Status s = joined(c);
	__atomic_store_n(&c->state, s, __ATOMIC_RELEASE);
	return NULL;
}

API Status ncclCommInitRankConfig(Comm **out, int ranks, Id id, int rank, const Config *config) {
	Status s = enter(__func__);
	int32_t none = 0;
	if (s) return s;
	if (!out || ranks < 1 || rank < 0 || rank >= ranks) return failed(INVALID_ARGUMENT, "Invalid rank requested : %d/%d", rank, ranks);
	if (!config || config->magic != config_magic || config->size < sizeof *config || config->version < 21400 || config->blocking != 0)
		return failed(INVALID_ARGUMENT, "the stand-in has communicators alone that don't block");
	if (ranks > MAX_RANKS) return failed(INVALID_ARGUMENT, "the stand-in has at most %d ranks", MAX_RANKS);
	Comm *c = calloc(1, sizeof *c);
	*c = (Comm){.rank = rank, .ranks = ranks, .id = id, .state = IN_PROGRESS};
	if (driver()->device(&c->device) != 0 || driver()->alloc(&c->held, HELD) != 0) {
		free(c);
		return failed(UNHANDLED_CUDA_ERROR, "no context, or no memory of the device");
	}
	c->shared = memcmp(id.magic, magic, sizeof magic) == 0 ? open_shared(&id) : NULL;
	Shared *shared = c->shared;
	if (!shared || (!__atomic_compare_exchange_n(&shared->ranks, &none, ranks, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST) && none != ranks)) {
		driver()->free(c->held);
		if (shared) munmap(shared, sizeof *shared);
		free(c);
		return failed(shared ? INVALID_ARGUMENT : SYSTEM_ERROR, shared ? "other ranks said another number of ranks" : "the process that made the id is gone");
	}
	shared->members[rank].device = c->device;
	__atomic_store_n(&shared->members[rank].process, getpid(), __ATOMIC_RELEASE);
	pthread_mutex_lock(&lock);
	c->next = comms;
	comms = c;
	pthread_mutex_unlock(&lock);
	pthread_t thread;
	if (pthread_create(&thread, NULL, join, c) != 0) abort();
	pthread_detach(thread);
	*out = c;
	return IN_PROGRESS;
}

API Status ncclCommGetAsyncError(Comm *c, Status *state) {
	Status s = enter(__func__);
	if (s) return s;
	if (!comm_exists(c) || !state) return failed(INVALID_ARGUMENT, "no communicator");
	*state = __atomic_load_n(&c->state, __ATOMIC_ACQUIRE);
	if (*state == INVALID_USAGE) failed(*state, "Duplicate GPU detected : rank %d and another rank both on CUDA device %d", c->rank, c->device);
	return SUCCESS;
}

// give_back ends a communicator. A thread that waits in it for other ranks may look at it
// for a while yet, so its memory stays. The id is that of rank 0, if its process made it.
static Status give_back(Comm *c) {
	forget(c);
	if (c->rank == 0 && c->id.process == getpid()) close(c->id.fd);
	return driver()->free(c->held) == 0 ? SUCCESS : failed(UNHANDLED_CUDA_ERROR, "memory of the device can't be given back");
}

API Status ncclCommFinalize(Comm *c) {
	Status s = enter(__func__);
	if (s) return s;
	if (!comm_exists(c)) return failed(INVALID_ARGUMENT, "no communicator");
	return __atomic_load_n(&c->unfinished, __ATOMIC_ACQUIRE) ? failed(INVALID_USAGE, "work is on its way") : SUCCESS;
}

API Status ncclCommDestroy(Comm *c) {
	Status s = enter(__func__);
	if (s) return s;
	if (!comm_exists(c)) return failed(INVALID_ARGUMENT, "no communicator");
	return give_back(c);
}

API Status ncclCommAbort(Comm *c) {
	Status s = enter(__func__);
	if (s) return s;
	if (!comm_exists(c)) return failed(INVALID_ARGUMENT, "no communicator");
	__atomic_store_n(&c->aborted, true, __ATOMIC_RELEASE);
	return give_back(c);
}
