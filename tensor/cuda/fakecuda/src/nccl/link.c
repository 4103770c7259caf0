// The driver that the library is over: libcuda.so.1 in its own folder, so that each copy
// of both is a pair with state of its own.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nccl.h"

static Driver found;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void *symbol(void *lib, const char *name) {
	void *f = dlsym(lib, name);
	if (!f) {
		fprintf(stderr, "fake NCCL: libcuda.so.1 in its folder has no %s\n", name);
		abort();
	}
	return f;
}

static void find(void) {
	Dl_info info;
	char path[4096];
	if (!dladdr((void *)driver, &info)) abort();
	const char *slash = strrchr(info.dli_fname, '/');
	int folder = slash ? (int)(slash - info.dli_fname) + 1 : 0;
	snprintf(path, sizeof path, "%.*slibcuda.so.1", folder, info.dli_fname);
	void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!lib) {
		fprintf(stderr, "fake NCCL: %s\n", dlerror());
		abort();
	}
	found.submit = symbol(lib, "fakecudaSubmit");
	found.bytes = symbol(lib, "fakecudaBytes");
	found.written = symbol(lib, "fakecudaWritten");
	found.device = symbol(lib, "cuCtxGetDevice");
	found.alloc = symbol(lib, "cuMemAlloc_v2");
	found.free = symbol(lib, "cuMemFree_v2");
}

const Driver *driver(void) {
	pthread_once(&once, find);
	return &found;
}
