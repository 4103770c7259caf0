// Package fakecuda builds a stand-in for libcuda.so.1, for tests on machines without a
// GPU. It is C, so that a test calls it as it calls the driver: by address, on threads,
// from several processes.
//
// src/call.c fails calls that a test names and counts what is alive, device.c and
// context.c hold devices and the context of each thread. space.c is the address space of
// devices: memory.c allocates in it, virtual.c maps, ipc.c imports, copy.c copies. host.c
// is pinned memory. stream.c runs work late, on threads, event.c marks it. handle.c makes
// handles for other processes. refused.c lists the calls that it refuses.
//
// # Strictness
//
// The stand-in checks the bounds of every copy. The host can't follow the address of a
// device. Handles that don't exist are errors, where the driver may crash. Registered
// memory must be whole pages.
//
// # Differences from the driver
//
// It runs no kernels and captures no graphs: these calls return CUDA_ERROR_NOT_SUPPORTED.
// Work in the legacy stream runs before the call returns. A device's memory is the
// host's, and access to a peer's memory needs no permission.
//
// # Settings
//
// The library reads environment variables when it is loaded or first asked:
//
//	FAKECUDA_DEVICES      how many devices there are (2); with 0 cuInit returns 100
//	FAKECUDA_VERSION      the CUDA version of the driver (12040)
//	FAKECUDA_MEMORY_MIB   the memory of each device (1024)
//	FAKECUDA_DELAY_US     how late each operation of a stream is (0)
//	FAKECUDA_FAIL         name:call=code, with commas between: what fails, when, and how
//	FAKECUDA_COUNTERS     a file for what processes have and call; ReadCounters reads it
package fakecuda
