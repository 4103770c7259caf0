// Errors: those that a test asks for, and the text of the last one.
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nccl.h"

static __thread char last[256];

Status failed(Status s, const char *format, ...) {
	va_list args;
	va_start(args, format);
	vsnprintf(last, sizeof last, format, args);
	va_end(args);
	return s;
}

// enter counts the calls of one function, which FAKENCCL_FAIL names: "ncclAllReduce:2=1"
// has its second call return 1.
Status enter(const char *name) {
	static int seen;
	char of[64];
	int call, code;
	const char *s = getenv("FAKENCCL_FAIL");
	if (!s || !*s) return SUCCESS;
	if (sscanf(s, "%63[^:]:%d=%d", of, &call, &code) != 3) {
		fprintf(stderr, "fake NCCL: FAKENCCL_FAIL: %s: want name:call=code\n", s);
		abort();
	}
	if (strcmp(of, name) != 0 || __atomic_add_fetch(&seen, 1, __ATOMIC_SEQ_CST) != call) return SUCCESS;
	return failed(code, "FAKENCCL_FAIL asked for it");
}

API const char *ncclGetErrorString(Status s) {
	switch (s) {
	case SUCCESS: return "no error";
	case UNHANDLED_CUDA_ERROR: return "unhandled cuda error (run with NCCL_DEBUG=INFO for details)";
	case SYSTEM_ERROR: return "unhandled system error (run with NCCL_DEBUG=INFO for details)";
	case INVALID_ARGUMENT: return "invalid argument (run with NCCL_DEBUG=WARN for details)";
	case INVALID_USAGE: return "invalid usage (run with NCCL_DEBUG=WARN for details)";
	case IN_PROGRESS: return "NCCL operation in progress";
	}
	return "unknown result code";
}

API const char *ncclGetLastError(const Comm *c) {
	(void)c;
	return last;
}

API Status ncclGetVersion(int *version) {
	const char *v = getenv("FAKENCCL_VERSION");
	if (!version) return failed(INVALID_ARGUMENT, "version argument is NULL");
	*version = v && *v ? atoi(v) : 22105;
	return SUCCESS;
}
