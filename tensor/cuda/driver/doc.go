// Package driver is the CUDA driver API as a Go interface, its types and its errors. It
// holds no code that calls a driver: package dlopen does, over libcuda.so.1, and tests do
// over a stand-in.
//
// api.go lists the calls in groups, each with the name of the C function behind it.
// types.go holds handles, flags and attributes with CUDA's values, result.go the error
// codes, args.go the parameters of a kernel, bind.go contexts and threads.
//
// # Contexts and threads
//
// CUDA keeps the current context per OS thread, and a goroutine moves between threads. A
// caller makes a burst of calls inside [Bind], which holds the thread for that time.
// Calls outside of one find no context and return [InvalidContext]. Init, Version and the
// calls of [Devices] need none.
//
// # Host memory
//
// A call whose name ends in Async may read or write its host slice after it returned. The
// slice must then be memory that neither moves nor is freed: a mapped segment or memory
// from HostAlloc, never the Go heap. All other calls are done with their slices when they
// return.
//
// # Errors
//
// A call returns an [*Error] with the name of the C function and its [Result]; errors.Is
// compares with a Result. An error of the device, such as [IllegalAddress], may be
// returned by any later call of the context: [Result.Lost] reports whether the context is
// beyond use.
package driver
