// Package ringside is the map of the module; it holds no code. The top-level folders form
// a one-way street, which floors_test.go keeps: a package imports only from its own
// folder and from those before it.
//
// # Memory and queues
//
//	shm                segments, arenas, blocks and handles, futex; the only mmap
//	shm/limits         what the machine and its containers allow: memory, descriptors
//	shm/plain          names of files in errors and output, quoted where they don't print
//	shm/plain/plaintest         a name that must be quoted, for tests
//	shm/limits/limitstest
//	                   control groups for tests
//	shm/testneeds      tests that lack something are skipped, or fail, in all folders
//	ring               the lock-free queue and how to wait for it, over a []byte
//
// # Processes that talk
//
//	ipc                the contract: messages, conns, transports; secrets
//	ipc/encoding       how messages are encoded: the version, greetings, fields
//	ipc/encoding/encodingtest   what the encoding of every message must pass
//	ipc/local          the transport of one host: rings, descriptors, liveness
//	ipc/ipctest        the suite of every transport, and a transport in memory
//	ipc/lingertest     sockets whose close waits, for tests
//	net/tcp            the transport between hosts: greetings, frames, bulk transfers
//	net/tcp/internal/crc32c     its checksums
//	net/route          which transport leads where; the conns between the ranks of a group
//	net/nettest        two hosts on one machine, for tests
//
// # Ranks that compute in step
//
//	collective         groups of ranks, and every collective on slices and values
//	collective/element element types (a new dtype begins here), reductions, 16-bit floats
//	collective/isa     instruction sets of the kernels, and those of this machine;
//	                   collective/isa/isatest skips tests of those that it lacks
//	collective/testsize         how much of a long test runs, here and in later folders
//	collective/protocol         what ranks agree on: calls, errors, cuts of a buffer
//	collective/internal/kernel  folds and copies buffers, in one pass
//	collective/internal/algorithm/onehost    the algorithms of collectives among ranks of
//	                   one host, over shared memory
//	collective/internal/algorithm/crosshost  those between hosts, over bulk transfers
//	collective/internal/tagged  messages with tags between two ranks, beside the calls
//	collective/rendezvous       this rank's number, and where the others are
//	collective/launch           starts ranks, here and by a remote shell
//
// # Tensors, for users
//
//	tensor             shapes, operations, programs, sessions; names of dtypes
//	tensor/autograd    gradients
//	tensor/nn          modules and losses; tensor/nn/model whole models
//	tensor/optim       optimizers and schedules
//	tensor/train       training loops
//	tensor/data        datasets and their samplers
//	tensor/safetensors the file format; tensor/checkpoint tensors kept in a folder
//	tensor/spmd        collectives on tensors, for programs that are ranks
//	tensor/explain     shows a program and its plan: text, graph, data
//
// # Tensors, computed
//
//	tensor/device      the contract of what computes: Device, Space
//	tensor/device/apart         a device for tests: its memory faults, it is late
//	tensor/device/devicetest    the suite of every device
//	tensor/enginetest  the suite of every engine, and a slow one to compare with
//	tensor/internal/compile     a program becomes a plan of fused steps over buffers
//	tensor/internal/elementary  exp, log and powers of float64, right at the ends
//	tensor/cpu         the engine on cores; tensor/cpu/internal/kernel its loops
//	tensor/shard       a program becomes programs for several workers, and collectives;
//	                   tensor/shard/config the file that says how tensors lie
//
// # CUDA
//
//	tensor/cuda                 the engine on a GPU
//	tensor/cuda/internal/ptx    writes kernels for its elementwise steps
//	tensor/cuda/driver          the CUDA driver API as an interface, its types and errors
//	tensor/cuda/driver/dlopen   that interface over libcuda.so.1, found at run time
//	tensor/cuda/driver/drivertest  the suite of every implementation of it
//	tensor/cuda/blas            a library of matrix products as an interface
//	tensor/cuda/blas/cublaslt   that interface over libcublasLt.so, found at run time
//	tensor/cuda/comm            a library of collectives as an interface
//	tensor/cuda/comm/nccl       that interface over libnccl.so.2, found at run time
//	tensor/cuda/internal/load   finds libraries when the program runs
//	tensor/cuda/memory          a device's memory: segments, streams, handles for others
//	tensor/cuda/gpucheck        the bundle that tries all of it on a machine with a GPU
//	tensor/cuda/fakecuda        strict stand-ins for these libraries in C, for tests
//	tensor/cuda/cudatest        runs PTX on it, for tests
//	tensor/cuda/kernels         kernels: CUDA C and the PTX of it
//
// # Tensors, in a cluster
//
//	tensor/cluster              a dispatcher and workers, here or as children
//	tensor/cluster/client       a tensor.Engine whose programs run elsewhere
//	tensor/cluster/dispatcher   places sessions on workers and forwards
//	tensor/cluster/worker       runs programs for others
//	tensor/cluster/metrics      names of counters, rates between two answers of a cluster
//	tensor/cluster/trace        what a cluster and its client do, as files; their summary
//	tensor/cluster/breaker        attackers beside an honest client, in tests
//	tensor/cluster/internal/wire  the messages of sessions
//	tensor/cluster/internal/wire/gen  writes the functions by which they are encoded
//	tensor/cluster/internal/turn  how sessions of several workers take turns
//	tensor/cluster/internal/transfer  bytes of tensors to and from clients elsewhere
//
// # Updates of many peers
//
//	gather             plans, partials, one result on all ranks
//	gather/codec       compressed updates: chunks, codebooks, the container, its checks
//	gather/codec/codectest  payloads for tests, honest and damaged
//	gather/torch       updates in the files of torch.save become payloads
//	gather/store       payloads in folders, on web servers, in S3 buckets; retries
//	gather/store/storetest  the suite of every store, and a web server with faults
//	gather/outcome     the outcomes that a peer's payload can have
//	gather/agg         the rules by which updates become one
//	gather/apply       the outer update of a model, exact and under a memory budget
//	gather/overlap     peers that sent the same positions as others
//	gather/artifact    a window's result, published once, verified, applied elsewhere
//	gather/outer       training by peers that share nothing but a store
//
// # Around it
//
//	bench              scenarios for go test and the command line; bench/floor in C
//	bench/shape        measures of the code itself, printed by cmd/shape
//	bench/turns        benchmarks of two revisions in turns, printed by cmd/turns
//	bench/revision     the files of an earlier revision
//	cmd/ringside       the command line; cmd/ringside/command a file a subcommand
//	cmd/ringside/events  files of losses that TensorBoard reads
//	cmd/ringside/page  the live page of up --http and train --http
//	cmd/ringside/plot  pictures of training runs
//	cmd/libringside    the C library; cmd/libringside/python over it
//	cmd/examples       small programs as users write them, modules of their own
//	cmd/fakecuda       builds the stand-ins of tensor/cuda/fakecuda
//
// Some folders are modules of their own, so that their dependencies are not the module's:
// bench/peers (other projects' transports), cmd/manual (manual pages and completions of a
// release), collective/launch/kubernetes (a test of the manifests in docs),
// tensor/cuda/driver/gorgonia (the CUDA driver by gorgonia.org/cu), the generators of
// assembly, tensor/cpu/internal/kernel/gen and collective/internal/kernel/gen, and each
// program below cmd/examples, which uses the module as others do.
//
// docs/architecture.md follows a training step and an all-reduce through these packages.
// CONTRIBUTING.md leads to the files that the usual changes touch. Begin with
// tensor.Session and client.Open for a program that computes, with collective.Init for
// ranks, and with ring and shm for the fastest channel to another process.
package ringside
