// Types that the files of the stand-in for libcublasLt.so share. The list of files is in
// the package's doc.go.
#ifndef LT_H
#define LT_H
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Codes of cublas_api.h that the stand-in returns.
typedef enum {
	SUCCESS = 0,
	NOT_INITIALIZED = 1,
	ALLOC_FAILED = 3,
	INVALID_VALUE = 7,
	EXECUTION_FAILED = 13,
	NOT_SUPPORTED = 15,
} Status;

#define API __attribute__((visibility("default")))

typedef uint64_t Ptr; // an address in a device's memory
enum { READ = 1, WRITE = 2 };

// object.c: handles and descriptors. One that does not exist is an error, where the
// library may crash.
typedef enum { HANDLE = 1, DESC, LAYOUT, PREFERENCE } Kind;
bool exists(const void *object, Kind k);

typedef struct {
	int device;
	Ptr held; // memory of the device, as the library has
} Handle;

typedef struct {
	int32_t compute, scale, pointer_mode, trans[3], fill;
	uint32_t epilogue;
	uint64_t rest[20]; // what the stand-in stores and refuses if it is set
} Desc;

typedef struct {
	int32_t type, order;
	uint64_t rows, columns;
	int64_t ld;
	int32_t batch;
	int64_t step, plane;
} Layout;

typedef struct {
	uint32_t search;
	uint64_t workspace;
	uint32_t reduction, align[4];
	float waves;
	uint64_t impl;
} Preference;

// Algo is what is inside of cublasLtMatmulAlgo_t.
typedef struct {
	uint64_t magic;
	uint64_t problem; // a hash of the descriptors that it was found for
	int32_t splits;
	uint32_t scheme;
	uint32_t align[4];
	uint64_t workspace;
	uint64_t spare[2];
} Algo;

typedef struct {
	Algo algo;
	size_t workspace;
	int32_t state;
	float waves;
	int32_t reserved[4];
} Result;
_Static_assert(sizeof(Algo) == 64 && sizeof(Result) == 96, "as in cublasLt.h");

// Values of the attributes.
enum { COMPUTE_32F = 68, COMPUTE_32F_TF32 = 77, COMPUTE_64F = 70 };
enum { R_32F = 0, R_64F = 1, R_16F = 2, R_16BF = 14 };
enum { SCHEME_NONE = 0, SCHEME_INPLACE = 1, SCHEME_COMPUTE_TYPE = 2, SCHEME_MASK = 7 };

// Work is a product as it was asked for.
typedef struct {
	Desc desc;
	Layout a, b, d;
	Ptr at[4]; // of A, B, D and the workspace
	double alpha;
	int32_t splits;
	uint32_t scheme;
	uint64_t seed;
} Work;

// multiply.c
int multiply(const char *work);
uint64_t size_of(int type);

// driver.c: the driver's library in the folder of this one.
typedef struct {
	int (*submit)(void *stream, int (*run)(const char *), char *work);
	char *(*bytes)(Ptr p, uint64_t n, int access);
	bool (*written)(Ptr p, uint64_t n);
	int (*device)(int *d);
	int (*alloc)(Ptr *p, size_t n);
	int (*free)(Ptr p);
} Driver;
const Driver *driver(void);

#endif
