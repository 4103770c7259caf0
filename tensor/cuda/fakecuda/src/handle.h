// Handles for other processes: 64 bytes that name a file of the exporter. It is opened
// through /proc, so nothing remains after a crash.
#ifndef HANDLE_H
#define HANDLE_H
#include "fake.h"

typedef struct {
	char bytes[64];
} Bytes64;

enum { HANDLE_MEMORY = 1, HANDLE_EVENT };

typedef struct {
	char magic[8];
	int kind, process, fd, device;
	uint64_t size, inode, namespace;
} Handle;

Bytes64 handle_bytes(Handle h);
bool handle_parse(Handle *h, Bytes64 bytes, int kind);
bool handle_foreign(const Handle *h); // of another PID namespace
int handle_open(const Handle *h); // -1 if the exporter or its file is gone

#endif
