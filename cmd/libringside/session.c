//go:build cgo

/* The functions of ringside.h on sessions and tensors, as those in api.c. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "_cgo_export.h"

extern int ringside_forked;

static __thread int inside; /* a call is under way on this thread */

/* A handler of a signal that ends a wait runs on the thread that waits. */
#define CALL(call) \
	if (ringside_forked) \
		return RINGSIDE_IN_CHILD; \
	if (inside) \
		return RINGSIDE_NESTED; \
	inside = 1; \
	int64_t result = call; \
	inside = 0; \
	return result

char *ringside_failure(int64_t failure) {
	if (ringside_forked || failure == RINGSIDE_IN_CHILD)
		return strdup("\n" RINGSIDE_FORKED_TEXT);
	if (failure == RINGSIDE_NO_MEMORY)
		return strdup("memory\nringside: no memory for a copy");
	if (failure == RINGSIDE_NESTED)
		return strdup("\nringside: called by a signal handler while the call that it interrupts waits");
	if (failure == RINGSIDE_NOT_BEGUN)
		return strdup("interrupted\nringside: interrupted by a signal while another call of the session ran");
	return goFailure(-failure);
}

int64_t ringside_table(char **json) {
	CALL(goTable(json));
}

int64_t ringside_about(ringside_handle handle, char **json) {
	CALL(goAbout(handle, json));
}

int64_t ringside_tape(ringside_handle session, char **json) {
	CALL(goTape(session, json));
}

int64_t ringside_config(const char *file, const char *text, char **json) {
	CALL(goConfig((char *)file, (char *)text, json));
}

int64_t ringside_session(const char *options) {
	CALL(goSession((char *)options));
}

int64_t ringside_cluster(const char *options) {
	CALL(goCluster((char *)options));
}

int64_t ringside_signal(const char *name) {
	CALL(goSignal((char *)name));
}

int64_t ringside_line(const char *text) {
	CALL(goLine((char *)text));
}

int64_t ringside_apply(const int64_t *call) {
	CALL(goApply((int64_t *)call));
}

int64_t ringside_record(ringside_handle session, const int64_t *calls, int64_t words, const int64_t *dead, int64_t n,
	int64_t item, void *element) {
	CALL(goRecord(session, (int64_t *)calls, words, (int64_t *)dead, n, item, element));
}

int64_t ringside_upload(ringside_handle session, int64_t head, int32_t dtype, const void *data, int64_t bytes,
	const int64_t *shape, int64_t rank) {
	CALL(goUpload(session, head, dtype, (void *)data, bytes, (int64_t *)shape, rank));
}

int64_t ringside_drop(ringside_handle session, const int64_t *tensors, int64_t n) {
	CALL(goDrop(session, (int64_t *)tensors, n));
}

int64_t ringside_describe(ringside_handle session, int64_t tensor, int64_t *description) {
	CALL(goDescribe(session, tensor, description));
}

int64_t ringside_read(ringside_handle session, int64_t tensor, void *dst, int64_t bytes) {
	CALL(goRead(session, tensor, dst, bytes));
}

int64_t ringside_view(ringside_handle session, int64_t tensor, void **data, int64_t *bytes) {
	CALL(goView(session, tensor, data, bytes));
}

int64_t ringside_flush(ringside_handle session, int32_t wait) {
	CALL(goFlush(session, wait));
}

int64_t ringside_scope(ringside_handle session, int64_t mark, const int64_t *keep, int64_t n) {
	CALL(goScope(session, mark, (int64_t *)keep, n));
}

int64_t ringside_item(ringside_handle session, int64_t tensor, void *element) {
	CALL(goItem(session, tensor, element));
}

int64_t ringside_seed(ringside_handle session, int64_t seed) {
	CALL(goSeed(session, seed));
}

int64_t ringside_backward(ringside_handle session, int64_t loss, int64_t output, int32_t flags) {
	CALL(goBackward(session, loss, output, flags));
}

int64_t ringside_tensor(ringside_handle session, int32_t what, int64_t tensor, int64_t other) {
	CALL(goTensor(session, what, tensor, other));
}

int64_t ringside_optimizer(ringside_handle session, const char *options, const int64_t *params, int64_t n) {
	CALL(goOptimizer(session, (char *)options, (int64_t *)params, n));
}

int64_t ringside_state(ringside_handle optimizer, int64_t *tensors, int64_t n) {
	CALL(goState(optimizer, tensors, n));
}

int64_t ringside_restore(ringside_handle optimizer, int64_t steps, const int64_t *tensors, int64_t n) {
	CALL(goRestore(optimizer, steps, (int64_t *)tensors, n));
}

int64_t ringside_save(ringside_handle session, const char *path, const char *options, const int64_t *tensors, int64_t n) {
	CALL(goSave(session, (char *)path, (char *)options, (int64_t *)tensors, n));
}

int64_t ringside_checkpoint(ringside_handle session, const char *dir, const char *options, const int64_t *tensors, int64_t n) {
	CALL(goCheckpoint(session, (char *)dir, (char *)options, (int64_t *)tensors, n));
}

int64_t ringside_resume(ringside_handle session, const char *dir, const char *options, const int64_t *tensors, int64_t n,
	char **json) {
	CALL(goResume(session, (char *)dir, (char *)options, (int64_t *)tensors, n, json));
}

int64_t ringside_file(const char *path) {
	CALL(goFile((char *)path));
}

int64_t ringside_load(ringside_handle session, ringside_handle file, const char *name) {
	CALL(goLoad(session, file, (char *)name));
}

/* Of Python, in the order of ringside_on_site. */
static struct {
	int (*ensure)(void);
	void (*release)(int);
	void *(*frame)(void);
	void *(*back)(void *);
	void *(*code)(void *);
	int (*line)(void *);
	void *(*attribute)(void *, const char *);
	const char *(*utf8)(void *);
	void (*incref)(void *);
	void (*decref)(void *);
	void (*clear)(void);
	int (*valid)(void *, const char *);
	void *(*pointer)(void *, const char *);
} py;
static char *package;

void ringside_on_site(void **functions, int32_t n, const char *folder) {
	if (n * sizeof(void *) != sizeof py)
		return;
	memcpy(&py, functions, sizeof py);
	free(package);
	package = strdup(folder);
}

/* ringside_site writes file:line of the innermost frame outside of the package, and
 * returns its length. It runs no code of Python, which could call back. */
int ringside_site(char *text, int n) {
	if (!package)
		return 0;
	int gil = py.ensure(), length = 0;
	void *frame = py.frame();
	if (frame)
		py.incref(frame);
	while (frame && !length) {
		void *code = py.code(frame), *name = py.attribute(code, "co_filename");
		const char *file = name ? py.utf8(name) : NULL;
		if (file && strncmp(file, package, strlen(package)) != 0) {
			length = snprintf(text, n, "%s:%d", file, py.line(frame));
			if (length >= n)
				length = n - 1;
		}
		if (name)
			py.decref(name);
		py.decref(code);
		void *outer = py.back(frame);
		py.decref(frame);
		frame = outer;
	}
	if (frame)
		py.decref(frame);
	py.clear();
	py.release(gil);
	return length;
}

/* DLPack (github.com/dmlc/dlpack), versions 0 and 1.0. */
typedef struct {
	void *data;
	int32_t device, device_id;
	int32_t ndim;
	uint8_t code, bits;
	uint16_t lanes;
	int64_t *shape, *strides;
	uint64_t offset;
} dltensor;

typedef struct managed {
	dltensor tensor;
	void *context;
	void (*deleter)(struct managed *);
} managed;

typedef struct versioned {
	uint32_t major, minor;
	void *context;
	void (*deleter)(struct versioned *);
	uint64_t flags;
	dltensor tensor;
} versioned;

/* lent is a tensor that another library has. */
typedef struct {
	managed old;
	versioned now;
	int64_t view; /* else data is a copy */
	void *data;
	int64_t shape[RINGSIDE_MAX_RANK], strides[RINGSIDE_MAX_RANK];
} lent;

/* give_back needs no interpreter, which may have ended. */
static void give_back(lent *l) {
	if (l->view && !ringside_forked)
		goUnview(l->view);
	free(l->data);
	free(l);
}

static void delete_old(managed *m) { give_back(m->context); }
static void delete_versioned(versioned *m) { give_back(m->context); }

int64_t ringside_lend(ringside_handle session, int64_t tensor, int32_t copy, int32_t code, int32_t bits, void **out) {
	int64_t d[RINGSIDE_DESCRIPTION], r = ringside_describe(session, tensor, d), bytes = bits / 8;
	if (r < 0)
		return r;
	lent *l = calloc(1, sizeof *l);
	dltensor t = {.device = 1, .ndim = d[2], .code = code, .bits = bits, .lanes = 1, .shape = l->shape, .strides = l->strides};
	for (int i = d[2] - 1; i >= 0; i--) {
		l->strides[i] = bytes / (bits / 8);
		bytes *= l->shape[i] = d[3 + i];
	}
	if (copy) {
		/* as much as a line of the cache more, so that none is of 0 bytes */
		if (posix_memalign(&l->data, 64, bytes + 64))
			l->data = NULL;
		r = l->data ? ringside_read(session, tensor, l->data, bytes) : RINGSIDE_NO_MEMORY;
		t.data = l->data;
	} else {
		r = ringside_view(session, tensor, &t.data, &bytes);
		l->view = r;
	}
	if (r < 0) {
		free(l->data);
		free(l);
		return r;
	}
	l->old = (managed){.tensor = t, .context = l, .deleter = delete_old};
	l->now = (versioned){.major = 1, .context = l, .deleter = delete_versioned, .flags = copy ? 2 : 1, .tensor = t};
	out[0] = &l->old;
	out[1] = &l->now;
	return 0;
}

void ringside_unused(void *capsule) {
	if (py.valid(capsule, "dltensor")) {
		managed *m = py.pointer(capsule, "dltensor");
		m->deleter(m);
	} else if (py.valid(capsule, "dltensor_versioned")) {
		versioned *m = py.pointer(capsule, "dltensor_versioned");
		m->deleter(m);
	}
}
