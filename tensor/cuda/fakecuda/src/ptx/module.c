// The driver's calls about modules, functions and launches.
#include "../fake.h"
#include "../order.h"
#include "ptx.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STATIC_LIMIT = 49152, SHARED_LIMIT = 166912, MAX_THREADS = 1024 };

typedef struct Loaded {
	Module *module;
	struct Entry {
		struct Loaded *loaded;
		const Function *function;
		int max_dynamic;
	} entries[128];
	Range *range; // of its variables, or NULL
	struct Loaded *next;
} Loaded;
typedef struct Entry Entry;

static Loaded *all; // guarded by lock
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static bool valid_module(const Loaded *m) {
	pthread_mutex_lock(&lock);
	const Loaded *x = all;
	while (x && x != m) x = x->next;
	pthread_mutex_unlock(&lock);
	return x != NULL;
}

static bool valid_entry(const Entry *e) {
	bool found = false;
	pthread_mutex_lock(&lock);
	for (Loaded *m = all; m; m = m->next) {
		for (int k = 0; k < m->module->function_count; k++) found |= e == &m->entries[k];
	}
	pthread_mutex_unlock(&lock);
	return found;
}

// place_globals gives the module's variables memory on the device.
static bool place_globals(Loaded *m) {
	Module *x = m->module;
	if (!x->global_bytes) return true;
	uint64_t inode;
	int fd = new_file(x->global_bytes, &inode);
	if (fd < 0) return false;
	x->global_at = reserve(x->global_bytes);
	m->range = x->global_at ? range_add(x->global_at, x->global_bytes, fd, MODULE, current->device) : NULL;
	if (!m->range) {
		close(fd);
		return false;
	}
	memcpy(m->range->bytes, x->global, x->global_bytes);
	return true;
}

// Options of the compiler for PTX: where it writes its errors, and how many bytes.
enum { ERROR_LOG = 5, ERROR_LOG_BYTES = 6 };

API Result cuModuleLoadDataEx(Loaded **out, const char *image, unsigned n, const int *options, void **values) {
	ENTER_UNSAFE;
	if (!image) return INVALID_VALUE;
	char *error = NULL;
	size_t size = 0;
	for (unsigned k = 0; k < n; k++) {
		if (options[k] == ERROR_LOG) error = values[k];
		if (options[k] == ERROR_LOG_BYTES) size = (size_t)values[k];
	}
	Module *parsed = parse(image, error, error ? size : 0);
	if (!parsed) return INVALID_PTX;
	Loaded *m = calloc(1, sizeof *m);
	m->module = parsed;
	for (int k = 0; k < parsed->function_count; k++) {
		m->entries[k] = (Entry){m, parsed->functions[k], STATIC_LIMIT - (int)parsed->functions[k]->shared};
	}
	if (!place_globals(m)) {
		module_free(parsed);
		free(m);
		return OUT_OF_MEMORY;
	}
	pthread_mutex_lock(&lock);
	m->next = all;
	all = m;
	pthread_mutex_unlock(&lock);
	*out = m;
	return OK;
}

API Result cuModuleUnload(Loaded *m) {
	ENTER_UNSAFE;
	if (!valid_module(m)) return INVALID_HANDLE;
	drain_all();
	pthread_mutex_lock(&lock);
	for (Loaded **p = &all; *p; p = &(*p)->next) {
		if (*p != m) continue;
		*p = m->next;
		break;
	}
	pthread_mutex_unlock(&lock);
	if (m->range) {
		pthread_mutex_lock(&space_lock);
		close(m->range->fd);
		unreserve(m->range->at, m->range->size);
		range_remove(m->range);
		pthread_mutex_unlock(&space_lock);
	}
	module_free(m->module);
	free(m);
	return OK;
}

API Result cuModuleGetFunction(Entry **out, Loaded *m, const char *name) {
	ENTER_CONTEXT;
	if (!valid_module(m)) return INVALID_HANDLE;
	if (!name) return INVALID_VALUE;
	for (int k = 0; k < m->module->function_count; k++) {
		if (!m->entries[k].function->entry || strcmp(m->entries[k].function->name, name)) continue;
		*out = &m->entries[k];
		return OK;
	}
	return NOT_FOUND;
}

API Result cuModuleGetGlobal_v2(Ptr *at, size_t *size, Loaded *m, const char *name) {
	ENTER_CONTEXT;
	if (!valid_module(m)) return INVALID_HANDLE;
	if (!name) return INVALID_VALUE;
	for (const Symbol *y = m->module->globals; y; y = y->next) {
		if ((y->kind != S_GLOBAL && y->kind != S_CONST) || strcmp(y->name, name)) continue;
		if (at) *at = m->module->global_at + y->offset;
		if (size) *size = y->size;
		return OK;
	}
	return NOT_FOUND;
}

enum { A_MAX_THREADS = 0, A_STATIC_SHARED = 1, A_LOCAL_BYTES = 3, A_REGISTERS = 4, A_MAX_DYNAMIC = 8 };

// The interpreter allocates no registers: it says 32 of every function.
API Result cuFuncGetAttribute(int *value, int attribute, const Entry *e) {
	ENTER_CONTEXT;
	if (!valid_entry(e)) return INVALID_HANDLE;
	switch (attribute) {
	case A_MAX_THREADS: *value = e->function->max_threads ? (int)e->function->max_threads : MAX_THREADS; break;
	case A_STATIC_SHARED: *value = (int)e->function->shared; break;
	case A_LOCAL_BYTES: *value = (int)e->loaded->module->local; break;
	case A_REGISTERS: *value = 32; break;
	case A_MAX_DYNAMIC: *value = e->max_dynamic; break;
	default: return INVALID_VALUE;
	}
	return OK;
}

API Result cuFuncSetAttribute(Entry *e, int attribute, int value) {
	ENTER_CONTEXT;
	if (!valid_entry(e)) return INVALID_HANDLE;
	if (attribute != A_MAX_DYNAMIC || value < 0 || value > SHARED_LIMIT - (int)e->function->shared) return INVALID_VALUE;
	e->max_dynamic = value;
	return OK;
}

API Result cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const Entry *e, int threads, size_t dynamic) {
	ENTER_CONTEXT;
	if (!valid_entry(e)) return INVALID_HANDLE;
	if (threads < 1 || threads > MAX_THREADS) return INVALID_VALUE;
	size_t by_threads = 2048 / ((threads + 31) / 32 * 32), by_shared = 167936 / (e->function->shared + dynamic + 1024);
	*blocks = (int)(by_threads < by_shared ? by_threads : by_shared);
	if (*blocks > 32) *blocks = 32;
	return OK;
}

// Launches.

bool view_of(uint64_t address, View *v) {
	pthread_mutex_lock(&space_lock);
	const Range *r = range_of(address);
	if (r) *v = (View){.at = r->at, .size = r->size, .bytes = r->bytes, .access = r->access,
		.written = r->exported ? NULL : r->written};
	pthread_mutex_unlock(&space_lock);
	return r != NULL;
}

char *other_bytes(uint64_t address, uint64_t n, int access) { return pinned_bytes(address, n, access); }

// Work is a launch as it was asked for. A graph runs it more than once.
typedef struct Work {
	Launch launch;
	Context *context;
	char params[];
} Work;

// tell writes the report of a launch to the file FAKECUDA_LAUNCHES, a line of JSON. With
// no such file it prints what is wrong.
static void tell(const char *name, const Report *r, int result) {
	char line[4096];
	int n = snprintf(line, sizeof line,
		"{\"kernel\":\"%s\",\"result\":%d,\"instructions\":%llu,\"sectors\":%llu,\"fewestSectors\":%llu,\"conflicts\":%llu,\"globalBytes\":%llu,\"findings\":[",
		name, result, (unsigned long long)r->instructions, (unsigned long long)r->sectors, (unsigned long long)r->fewest_sectors,
		(unsigned long long)r->conflicts, (unsigned long long)r->global_bytes);
	for (int k = 0; k < r->finding_count; k++) n += snprintf(line + n, sizeof line - n, "%s\"%s\"", k ? "," : "", r->findings[k]);
	n += snprintf(line + n, sizeof line - n, "]}\n");
	const char *path = getenv("FAKECUDA_LAUNCHES");
	if (!path || !*path) {
		if (r->found) fprintf(stderr, "fakecuda: %s", line);
		return;
	}
	int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	if (fd < 0 || write(fd, line, n) != n) perror(path);
	if (fd >= 0) close(fd);
}

static void run_launch(struct Op *op) {
	const Work *k = op->object;
	Report report = {0};
	Launch launch = k->launch;
	launch.report = &report;
	int result = k->context->lost ? k->context->lost : run(&launch);
	tell(launch.function->name, &report, result);
	if (result && !k->context->lost) k->context->lost = result;
}

static bool sizes_fit(const Entry *e, const unsigned grid[3], const unsigned block[3], unsigned shared) {
	unsigned most = e->function->max_threads ? e->function->max_threads : MAX_THREADS;
	for (int k = 0; k < 3; k++) {
		if (!grid[k] || !block[k] || grid[k] > (k ? 65535u : 0x7fffffffu) || block[k] > (k == 2 ? 64 : MAX_THREADS)) return false;
	}
	return block[0] * block[1] * block[2] <= most && shared <= (unsigned)e->max_dynamic &&
	       (uint64_t)grid[0] * grid[1] * grid[2] <= 0x7fffffff;
}

API Result cuLaunchKernel(Entry *e, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
	unsigned shared, Stream *s, void **params, void **extra) {
	ENTER_CONTEXT;
	if (!valid_entry(e)) return INVALID_HANDLE;
	if (!valid_stream(s)) return INVALID_HANDLE;
	if (extra) return NOT_SUPPORTED;
	const Function *f = e->function;
	unsigned grid[3] = {gx, gy, gz}, block[3] = {bx, by, bz};
	if (!sizes_fit(e, grid, block, shared) || (f->param_count && !params)) return INVALID_VALUE;
	Work *k = calloc(1, sizeof *k + f->param_bytes + 1);
	k->launch = (Launch){.module = e->loaded->module, .function = f, .shared = shared, .seed = order_seed()};
	memcpy(k->launch.grid, grid, sizeof grid);
	memcpy(k->launch.block, block, sizeof block);
	k->launch.params = k->params;
	k->context = current;
	for (int p = 0; p < f->param_count; p++) memcpy(k->params + f->params[p]->offset, params[p], f->params[p]->size);
	return submit(s, &(struct Op){.run = run_launch, .object = k, .staged = (char *)k});
}
