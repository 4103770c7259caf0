// Handles and descriptors, and their attributes. The sizes, defaults and codes are those
// of libcublasLt.so.12 12.4.5: a value is not looked at before it is used.
#include <stdlib.h>
#include <string.h>

#include "lt.h"

typedef struct Object {
	Kind kind;
	struct Object *next;
	max_align_t content[];
} Object;

static Object *objects;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

bool exists(const void *object, Kind k) {
	pthread_mutex_lock(&lock);
	const Object *x = objects;
	while (x && x->content != object) x = x->next;
	bool is = x && x->kind == k;
	pthread_mutex_unlock(&lock);
	return is;
}

static Status make(void **out, Kind k, const void *content, size_t n) {
	if (!out) return INVALID_VALUE;
	Object *x = calloc(1, sizeof *x + n);
	x->kind = k;
	memcpy(x->content, content, n);
	pthread_mutex_lock(&lock);
	x->next = objects;
	objects = x;
	pthread_mutex_unlock(&lock);
	*out = x->content;
	return SUCCESS;
}

static Status destroy(void *object, Kind k) {
	pthread_mutex_lock(&lock);
	Object **at = &objects;
	while (*at && ((*at)->content != object || (*at)->kind != k)) at = &(*at)->next;
	Object *x = *at;
	if (x) *at = x->next;
	pthread_mutex_unlock(&lock);
	free(x);
	return x ? SUCCESS : INVALID_VALUE;
}

// Attribute is where an attribute lies; size 0 for one that does not exist.
typedef struct {
	size_t at, size;
} Attribute;

#define FIELD(type, name) {offsetof(type, name), sizeof(((type *)0)->name)}
#define REST(k, n) {offsetof(Desc, rest) + 8 * (k), n}

static const Attribute desc_attributes[] = {
	FIELD(Desc, compute), FIELD(Desc, scale), FIELD(Desc, pointer_mode), FIELD(Desc, trans[0]), FIELD(Desc, trans[1]),
	FIELD(Desc, trans[2]), FIELD(Desc, fill), FIELD(Desc, epilogue), REST(0, 8), {0, 0}, REST(1, 8), REST(2, 8), REST(3, 8),
	REST(4, 8), REST(5, 8), REST(6, 4), REST(7, 4), REST(8, 8), REST(9, 8), REST(10, 8), REST(11, 8), REST(12, 8),
};
static const Attribute layout_attributes[] = {
	FIELD(Layout, type), FIELD(Layout, order), FIELD(Layout, rows), FIELD(Layout, columns), FIELD(Layout, ld),
	FIELD(Layout, batch), FIELD(Layout, step), FIELD(Layout, plane),
};
static const Attribute preference_attributes[] = {
	FIELD(Preference, search), FIELD(Preference, workspace), {0, 0}, FIELD(Preference, reduction), {0, 0},
	FIELD(Preference, align[0]), FIELD(Preference, align[1]), FIELD(Preference, align[2]), FIELD(Preference, align[3]),
	FIELD(Preference, waves), {0, 0}, {0, 0}, FIELD(Preference, impl),
};
static const Attribute algo_attributes[] = {{0, 0}, {0, 0}, FIELD(Algo, splits), FIELD(Algo, scheme)};

typedef struct {
	const Attribute *all;
	int count;
} Table;
#define TABLE(t) ((Table){t, sizeof t / sizeof *t})

static Status set(void *object, Table t, int attribute, const void *value, size_t n) {
	if (attribute < 0 || attribute >= t.count || !value) return INVALID_VALUE;
	const Attribute *a = &t.all[attribute];
	if (!a->size || n != a->size) return INVALID_VALUE;
	memcpy((char *)object + a->at, value, n);
	return SUCCESS;
}

static Status get(const void *object, Table t, int attribute, void *value, size_t n, size_t *written) {
	if (attribute < 0 || attribute >= t.count || !t.all[attribute].size) return INVALID_VALUE;
	const Attribute *a = &t.all[attribute];
	if (n == 0 ? !written : !value || n != a->size) return INVALID_VALUE;
	if (n) memcpy(value, (const char *)object + a->at, n);
	if (written) *written = a->size;
	return SUCCESS;
}

API size_t cublasLtGetVersion(void) {
	const char *v = getenv("FAKECUBLASLT_VERSION");
	return v ? strtoull(v, NULL, 10) : 120405;
}

API Status cublasLtCreate(void **out) {
	if (!out) return INVALID_VALUE;
	Handle h = {0};
	if (driver()->device(&h.device)) return NOT_INITIALIZED;
	if (driver()->alloc(&h.held, 4096)) return ALLOC_FAILED;
	return make(out, HANDLE, &h, sizeof h);
}

API Status cublasLtDestroy(Handle *h) {
	if (!exists(h, HANDLE)) return NOT_INITIALIZED;
	int r = driver()->free(h->held);
	destroy(h, HANDLE);
	return r ? EXECUTION_FAILED : SUCCESS;
}

API Status cublasLtMatmulDescCreate(void **out, int compute, int scale) {
	Desc d = {.compute = compute, .scale = scale, .fill = 2, .epilogue = 1};
	return make(out, DESC, &d, sizeof d);
}

API Status cublasLtMatmulDescDestroy(void *d) { return destroy(d, DESC); }

API Status cublasLtMatmulDescSetAttribute(void *d, int attribute, const void *value, size_t n) {
	return exists(d, DESC) ? set(d, TABLE(desc_attributes), attribute, value, n) : INVALID_VALUE;
}

API Status cublasLtMatmulDescGetAttribute(void *d, int attribute, void *value, size_t n, size_t *written) {
	return exists(d, DESC) ? get(d, TABLE(desc_attributes), attribute, value, n, written) : INVALID_VALUE;
}

API Status cublasLtMatrixLayoutCreate(void **out, int type, uint64_t rows, uint64_t columns, int64_t ld) {
	Layout l = {.type = type, .rows = rows, .columns = columns, .ld = ld, .batch = 1};
	return make(out, LAYOUT, &l, sizeof l);
}

API Status cublasLtMatrixLayoutDestroy(void *l) { return destroy(l, LAYOUT); }

API Status cublasLtMatrixLayoutSetAttribute(void *l, int attribute, const void *value, size_t n) {
	return exists(l, LAYOUT) ? set(l, TABLE(layout_attributes), attribute, value, n) : INVALID_VALUE;
}

API Status cublasLtMatrixLayoutGetAttribute(void *l, int attribute, void *value, size_t n, size_t *written) {
	return exists(l, LAYOUT) ? get(l, TABLE(layout_attributes), attribute, value, n, written) : INVALID_VALUE;
}

API Status cublasLtMatmulPreferenceCreate(void **out) {
	Preference p = {.reduction = SCHEME_MASK, .align = {256, 256, 256, 256}, .impl = ~0ull};
	return make(out, PREFERENCE, &p, sizeof p);
}

API Status cublasLtMatmulPreferenceDestroy(void *p) { return destroy(p, PREFERENCE); }

API Status cublasLtMatmulPreferenceSetAttribute(void *p, int attribute, const void *value, size_t n) {
	return exists(p, PREFERENCE) ? set(p, TABLE(preference_attributes), attribute, value, n) : INVALID_VALUE;
}

API Status cublasLtMatmulPreferenceGetAttribute(void *p, int attribute, void *value, size_t n, size_t *written) {
	return exists(p, PREFERENCE) ? get(p, TABLE(preference_attributes), attribute, value, n, written) : INVALID_VALUE;
}

API Status cublasLtMatmulAlgoConfigGetAttribute(const Algo *a, int attribute, void *value, size_t n, size_t *written) {
	return a ? get(a, TABLE(algo_attributes), attribute, value, n, written) : INVALID_VALUE;
}
