// Package cuda is the engine on a CUDA GPU: a device.Device over the driver's interface
// (package driver) and the memory of a device (package memory). NewEngine of package
// device makes a tensor.Engine of it; workers take it as it is. The package loads no
// library: the caller opens the driver, see package dlopen.
//
// A program runs step by step. A step that has a kernel is launched into the space's
// stream, and Run goes on without waiting. Every other step runs on the host by package
// cpu: its operands are copied down, and its results up before a kernel or a reader needs
// them. Both kinds are counted, see Counters. Place tells of a plan which steps are
// which.
//
// A kernel that can fail because of its operands' values notes the first failure, and the
// kernels after it compute something. Run does not wait for the news: the next Sync, Host
// or Read looks at the notes, and drops the results of that program and of all that read
// them. Only a program that also has steps on the host is waited for, and its error is
// Run's. Where the device is lost, every later call returns memory.ErrLost.
//
// Kernels between two steps on the host, where they are several, are a graph. It is
// captured at the second run of a program in a space, for the addresses of that run, and
// launched by one call in later runs with the same: a space uses memory that it freed
// again at once, so that addresses recur. Scalars that change from run to run lie in
// memory, which is written before.
//
// Small values cost more calls than bytes. They go up with the scalars of the run that
// reads them, in one copy, and results that the host reads come down in one. So a step of
// training is four calls of the driver: the copy up, the graph, the copy down and the
// event that the host polls. A check of an index that fails writes the step and the place
// into memory of the host itself, see late.go: without a failure nothing is copied.
//
// The stop flag is looked at before every step or graph, and inside of steps on the host.
// Kernels on their way can't be stopped. So a step of more than maxLaunch elements has no
// kernel, and Run waits where more than that many are on their way.
//
// Values of several workers of a host are summed up and gathered where they are, see
// peers. With Options.Collectives a library does that, see ranks. Values that one worker
// sends to another are copied from GPU to GPU, see link.
//
//	device.go   a Device: memory, compiled programs
//	counters.go what it did
//	space.go    the values of a session on it
//	run.go      a program that runs
//	graph.go    kernels that are captured and launched together
//	small.go    small values: sent with a run, and received with it
//	late.go     failures that are found after Run
//	host.go     steps on the host
//	peers.go    members of a group that reach each other's memory
//	collect.go  their collectives
//	link.go     values that one member sends to another
//	meeting.go  what they say to each other when they meet
//	ranks.go    members whose collectives a library runs
//	calls.go    what the library is asked for
//	pieces.go   what these give to a stream, and its graph
//	lower.go    the kernels of a plan
//	kernel.go   what a step launches: generated kernels and those of the library
//	matmul.go   matrix products
//	library.go  those of a library
//	rows.go     softmax, norms and their gradients, rope
//	attention.go an attention: products and softmax
//	pool.go     pools
//	conv.go     convolutions
//	move.go     fills, pads, concatenations
//	exchange.go copies of transposed views
//	index.go    steps with an index, which can fail
//	reduce.go   reductions, and chains that end in one
package cuda
