// Calls: the errors that a test asks for, and counts of what is alive.
#include "fake.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

bool initialized;

// FAKECUDA_FAIL is a list such as "cuMemAlloc_v2:3=2,cuInit:1=999": the third call of
// cuMemAlloc_v2 returns 2, the first of cuInit 999.
#define MAX_FAULTS 16
static struct fault {
	char name[64];
	int call, code, seen;
} faults[MAX_FAULTS];
static int fault_count;

// The file FAKECUDA_COUNTERS holds an entry for each process, which takes the first that
// has no process yet. The test writes the fault, and at last at, which is 0 for none.
#define MAX_PROCESSES 1024
typedef struct Entry {
	int64_t process, calls, alive[KINDS];
	int64_t at, code, seen;
	char fault[64];
} Entry;
static Entry private_entry, *entry = &private_entry;

static void read_faults(const char *s) {
	while (s && *s && fault_count < MAX_FAULTS) {
		struct fault *f = &faults[fault_count];
		if (sscanf(s, "%63[^:]:%d=%d", f->name, &f->call, &f->code) != 3) {
			fprintf(stderr, "fakecuda: FAKECUDA_FAIL: %s: want name:call=code\n", s);
			abort();
		}
		fault_count++;
		s = strchr(s, ',');
		if (s) s++;
	}
}

__attribute__((constructor)) static void configure(void) {
	read_faults(getenv("FAKECUDA_FAIL"));
	const char *path = getenv("FAKECUDA_COUNTERS");
	if (!path || !*path) return;
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0 || ftruncate(fd, MAX_PROCESSES * sizeof(Entry)) != 0) {
		perror(path);
		abort();
	}
	Entry *all = mmap(NULL, MAX_PROCESSES * sizeof(Entry), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (all == MAP_FAILED) abort();
	close(fd);
	for (int i = 0; i < MAX_PROCESSES; i++) {
		int64_t none = 0;
		if (__atomic_compare_exchange_n(&all[i].process, &none, getpid(), false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
			entry = &all[i];
			return;
		}
	}
	fprintf(stderr, "fakecuda: %s: more than %d processes\n", path, MAX_PROCESSES);
	abort();
}

// lost reports whether an error leaves a context of no use.
static bool lost(int code) {
	return code == 214 || code == 220 || code == 700 || code == 702 || code == 709 || code == 710 || (code >= 714 && code <= 719) ||
		code == 810 || code == 911;
}

Result enter(const char *name) {
	__atomic_add_fetch(&entry->calls, 1, __ATOMIC_SEQ_CST);
	int code = OK;
	for (int i = 0; i < fault_count; i++) { // each counts all calls
		struct fault *f = &faults[i];
		if (strcmp(f->name, name) == 0 && __atomic_add_fetch(&f->seen, 1, __ATOMIC_SEQ_CST) == f->call) code = f->code;
	}
	int64_t at = __atomic_load_n(&entry->at, __ATOMIC_SEQ_CST);
	if (at && strcmp(entry->fault, name) == 0 && __atomic_add_fetch(&entry->seen, 1, __ATOMIC_SEQ_CST) == at) code = entry->code;
	if (!lost(code)) return code;
	if (!current) { // as context_end does
		drain_all();
		return code;
	}
	current->lost = code;
	return context_end();
}

void count(int kind, int by) { __atomic_add_fetch(&entry->alive[kind], by, __ATOMIC_SEQ_CST); }
