// Devices: their number, size and attributes.
#include "fake.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static long setting(const char *name, long otherwise) {
	const char *s = getenv(name);
	return s && *s ? strtol(s, NULL, 10) : otherwise;
}

int device_count(void) {
	static int n = -1;
	if (n < 0) n = (int)setting("FAKECUDA_DEVICES", 2);
	return n < MAX_DEVICES ? n : MAX_DEVICES;
}

uint64_t memory_limit(void) { return (uint64_t)setting("FAKECUDA_MEMORY_MIB", 1024) << 20; }

bool valid_device(int d) { return d >= 0 && d < device_count(); }

API Result cuInit(unsigned flags) {
	Result r = enter(__func__);
	if (r) return r;
	if (flags) return INVALID_VALUE;
	if (device_count() == 0) return NO_DEVICE;
	initialized = true;
	return OK;
}

API Result cuDriverGetVersion(int *version) {
	*version = (int)setting("FAKECUDA_VERSION", 12040);
	return OK;
}

API Result cuDeviceGetCount(int *n) {
	ENTER;
	*n = device_count();
	return OK;
}

API Result cuDeviceGet(int *device, int ordinal) {
	ENTER;
	if (!valid_device(ordinal)) return INVALID_DEVICE;
	*device = ordinal;
	return OK;
}

API Result cuDeviceGetName(char *name, int size, int d) {
	ENTER;
	if (!valid_device(d)) return INVALID_DEVICE;
	snprintf(name, size, "stand-in"); // GPUs of one kind have one name
	return OK;
}

API Result cuDeviceGetPCIBusId(char *id, int size, int d) {
	ENTER;
	if (!valid_device(d)) return INVALID_DEVICE;
	snprintf(id, size, "0000:%02X:00.0", d + 1);
	return OK;
}

API Result cuDeviceTotalMem_v2(size_t *bytes, int d) {
	ENTER;
	if (!valid_device(d)) return INVALID_DEVICE;
	*bytes = memory_limit();
	return OK;
}

API Result cuDeviceGetUuid_v2(unsigned char *uuid, int d) {
	ENTER;
	if (!valid_device(d)) return INVALID_DEVICE;
	memset(uuid, 0xfa, 16);
	uuid[15] = d;
	return OK;
}

// Attributes that are not here are zero, as of a device without that feature.
static const struct {
	int attribute, value;
} attributes[] = {
	{1, 1024},   // threads of a block
	{8, 49152},  // shared memory of a block
	{10, 32},    // threads of a warp
	{16, 8},     // multiprocessors
	{19, 1},     // maps host memory
	{39, 2048},  // threads of a multiprocessor
	{40, 2},     // copy engines
	{41, 1},     // unified addresses
	{75, 8},     // compute capability
	{97, 166912}, // shared memory of a block that asks for more
	{99, 1},     // registers host memory
	{102, 1},    // virtual memory
	{103, 1},    // descriptors of it
	{113, 1},    // registers read-only memory
};

API Result cuDeviceGetAttribute(int *value, int attribute, int d) {
	ENTER;
	if (attribute <= 0) return INVALID_VALUE;
	if (!valid_device(d)) return INVALID_DEVICE;
	*value = 0;
	for (size_t i = 0; i < sizeof attributes / sizeof *attributes; i++) {
		if (attributes[i].attribute == attribute) *value = attributes[i].value;
	}
	return OK;
}

API Result cuDeviceCanAccessPeer(int *can, int d, int peer) {
	ENTER;
	if (!valid_device(d) || !valid_device(peer)) return INVALID_DEVICE;
	*can = d != peer;
	return OK;
}
