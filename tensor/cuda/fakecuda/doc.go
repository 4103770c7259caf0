// Package fakecuda builds stand-ins for libcuda.so.1, libcublasLt.so.12 and libnccl.so.2,
// for tests on machines without a GPU. They are C, so that a test calls them as it calls
// the driver: by address, on threads, from several processes.
//
// src/call.c fails calls that a test names and counts what is alive, device.c and
// context.c hold devices and the context of each thread. space.c is the address space of
// devices: memory.c allocates in it, virtual.c maps, ipc.c imports, copy.c copies. host.c
// is pinned memory. stream.c runs work late, on threads, event.c marks it. handle.c makes
// handles for other processes. graph.c captures streams and runs graphs, order.c gives
// orders.
//
// src/ptx is an interpreter of PTX. module.c is its face to the driver's calls. lex.c,
// forms.c, check.c and parse.c read PTX text and refuse what NVIDIA's assembler refuses:
// forms.c is the table of all instructions with their modifiers and types. block.c and
// warp.c run it, a warp at a time. arith.c, convert.c, approx.c and number.c compute,
// access.c, atomic.c and async.c reach memory, matrix.c is for tensor cores. watch.c
// measures and finds.
//
// src/blas is cuBLASLt: object.c has descriptors and their attributes, matmul.c checks
// products and names algorithms for them, multiply.c computes. driver.c finds the driver
// beside it; extend.c is what the driver has for it.
//
// src/nccl is NCCL: comm.c has ids and communicators, group.c checks calls and gives them
// to a stream, run.c and fold.c do them. fail.c has errors, link.c finds the driver.
//
// # Strictness
//
// The stand-in checks the bounds of every copy. The host can't follow the address of a
// device. Handles that don't exist are errors, where the driver may crash. Registered
// memory must be whole pages.
//
// # Differences from the driver
//
// A capture refuses copies of memory that is not pinned, and graphs within graphs. A
// graph runs its nodes one by one. Work in the legacy stream runs before the call
// returns. A device's memory is the host's, and access to a peer's memory needs no
// permission.
//
// # Products
//
// The stand-in for cuBLASLt computes in the streams of the driver, in captures and graphs
// too. It gives out algorithms of three kinds: with sums in place in an order that the
// seed gives, with sums of parts in the workspace, and with one sum. An algorithm runs
// for the product that it was found for, at addresses of the alignment that was promised,
// with all of its workspace. Operands that nothing wrote, results over operands, and
// matrices by rows are refused. Codes and defaults of descriptors are those of NVIDIA's
// library.
//
// # Collectives
//
// The stand-in for NCCL has communicators that don't block, calls within groups, and one
// communicator and one stream a group. Ranks meet in memory of the process that made the
// id, each on a device of its own. Work waits in its stream for all ranks, also for one
// that has ended, until its communicator is aborted. Ranks that make different calls, and
// operands that nothing wrote, are kernels that fail. Folds begin with the last rank, and
// f16 and bf16 are rounded after each step: their bits are not those in rank order.
//
// # Kernels
//
// The interpreter runs one block at a time. A launch writes a [Launch] to the file of
// FAKECUDA_LAUNCHES. It fails with CUDA_ERROR_LAUNCH_FAILED, as the driver's may or may
// not, if two threads touch a byte that one of them writes with nothing that orders them,
// if it reads a register or memory that nothing wrote, or if a barrier or a shuffle
// diverges. Global memory that was exported or mapped counts as written. An atomic after
// a fence orders nothing here, so a kernel whose blocks hand values to each other is
// refused. After a failure all calls of the context return its code.
//
// Approximate instructions are off by an error up to the bound in NVIDIA's manual, which
// depends on the seed. Tensor cores sum exactly and round once. Functions can't call
// themselves.
//
// # Settings
//
// The library reads environment variables when it is loaded or first asked:
//
//	FAKECUDA_DEVICES      how many devices there are (2); with 0 cuInit returns 100
//	FAKECUDA_VERSION      the CUDA version of the driver (12040)
//	FAKECUDA_MEMORY_MIB   the memory of each device (1024)
//	FAKECUDA_DELAY_US     how late each operation of a stream is (0)
//	FAKECUDA_FAIL         name:call=code, with commas between: what fails, when, and how;
//	                      after a code such as 700 the context is lost
//	FAKECUDA_SEED         the order of blocks, warps and nodes of graphs, and the
//	                      errors of approximate instructions; with 0 the order of
//	                      their numbers and no error (0)
//	FAKECUBLASLT_VERSION  the version of cuBLASLt (120405)
//	FAKENCCL_VERSION      the version of NCCL (22105)
//	FAKENCCL_FAIL         name:call=code: which call of NCCL fails, when, and how
//	FAKECUDA_LAUNCHES     a file for what kernels did; ReadLaunches reads it
//	FAKECUDA_COUNTERS     a file for what processes have and call; ReadCounters reads it,
//	                      and Fail has a call fail that a process makes later
package fakecuda
