#include "handle.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char magic[8] = "FAKEIPC";

static uint64_t namespace(void) {
	struct stat st;
	return stat("/proc/self/ns/pid", &st) == 0 ? st.st_ino : 0;
}

bool handle_foreign(const Handle *h) { return h->namespace != namespace(); }

Bytes64 handle_bytes(Handle h) {
	Bytes64 b = {{0}};
	h.namespace = namespace();
	memcpy(h.magic, magic, sizeof magic);
	memcpy(b.bytes, &h, sizeof h);
	return b;
}

bool handle_parse(Handle *h, Bytes64 bytes, int kind) {
	memcpy(h, bytes.bytes, sizeof *h);
	return memcmp(h->magic, magic, sizeof magic) == 0 && h->kind == kind && h->device >= 0 && h->device < MAX_DEVICES;
}

int handle_open(const Handle *h) {
	char path[64];
	struct stat st;
	snprintf(path, sizeof path, "/proc/%d/fd/%d", h->process, h->fd);
	int fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0) return -1;
	if (fstat(fd, &st) != 0 || st.st_ino != h->inode || (uint64_t)st.st_size < h->size) {
		close(fd);
		return -1;
	}
	return fd;
}
