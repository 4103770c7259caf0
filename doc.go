// Package ringside is the map of the module; it holds no code. The architecture is in the folder list, and
// floors_test.go keeps it: a package imports only packages on lower floors.
//
//	shm               segments, arenas, blocks and handles, futex: shared memory, the only mmap
//	ring              the lock-free queue and how to wait for it, over a []byte
//	ipc               the contract between processes: messages, conns, transports
//	ipc/wire          greetings, the version, the codec of messages; ipc/wire/wiretest its tests
//	ipc/local         the transport of one host: rings, descriptors, liveness
//	net/route         which transport leads where; the conns between the ranks of a group
//	net/tcp           the transport between hosts: greetings, frames, bulk transfers
//	net/nettest       two hosts on one machine, for tests
//	ipc/ipctest       what every transport must do, and one in memory
//	tensor/cluster/internal/wire the messages of sessions
//	tensor/cluster/internal/turn how sessions of several workers take turns
//	tensor/cluster/client        a tensor.Engine whose programs run elsewhere
//	tensor/cluster/dispatcher    places sessions on workers and forwards
//	tensor/cluster/worker        runs programs for others
//	tensor/cluster       a dispatcher and workers, in this process or as children
//	tensor            dtypes, shapes, operations, programs, sessions: what users write
//	tensor/internal/compile compiles a program to a plan: lifetimes, views, buffers, fused steps
//	tensor/explain    shows a program and its plan: text, graph, data
//	tensor/device     the contract of what computes: Device, Space; an engine on any Device
//	tensor/cpu        the engine on cores; tensor/cpu/internal/kernel its loops
//	tensor/device/devicetest what every device must do; a test on every device
//	tensor/device/apart a device for tests: its memory faults, it runs and fails late
//	tensor/enginetest what every engine must do, and a slow one to compare with
//	tensor/shard      a program becomes programs for several workers, and collectives between them;
//	                  tensor/shard/config the file that says how tensors lie
//	tensor/autograd   gradients
//	tensor/nn         modules and losses; tensor/nn/model whole models
//	tensor/optim      optimizers and schedules
//	collective/element element types, reductions, 16-bit floats: one definition for all
//	collective/isa    the instruction sets that kernels are written for, and what this machine has
//	tensor/data       datasets and their samplers; tensor/safetensors the file format
//	tensor/checkpoint tensors kept in a folder, and restored
//	tensor/train      training loops
//	collective        groups of ranks that compute in step, on slices, values and tensors
//	collective/plan   what the ranks of a group agree on: calls, errors, cuts of a buffer
//	collective/internal/kernel folds buffers of ranks into one, in one pass, and copies them
//	collective/internal/host   collectives among the ranks of one host, over shared memory
//	collective/internal/wide   collectives between hosts, over bulk transfers
//	collective/rendezvous who am I, and where are the others: launchers' variables, rank 0's store
//	collective/launch starts ranks, here and by a remote shell
//	gather/status     the outcomes that a peer's payload can have
//	gather/codec      compressed updates: chunks, codebooks, the container and its checks
//	gather/store      payloads in folders, on web servers, in S3 buckets; retries, the spool
//	gather            many peers' updates on all ranks at once: plans, partials, one result
//	gather/agg        the rules by which updates become one
//	gather/apply      the outer update of a model, exact and under a memory budget
//	gather/overlap    peers that sent the same positions as others
//	gather/artifact   a window's result, published once, verified, applied elsewhere
//	bench             scenarios that go test and the command line share; bench/floor the same in C
//	bench/shape       measures of the code itself, which cmd/shape prints
//	cmd/ringside      the command line; cmd/ringside/command a file a subcommand
//
// Three folders are modules of their own, for what they need is nobody else's dependency: bench/peers (other projects'
// transports, to compare with) and tensor/cpu/internal/kernel/gen and collective/internal/kernel/gen (the generators of the assembly).
//
// CONTRIBUTING.md lists the files that the usual changes touch. Where to begin: tensor.Session and client.Open for a
// program that computes, ring and shm for one that only wants the fastest channel to another process.
package ringside
