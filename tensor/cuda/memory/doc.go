// Package memory manages a CUDA device's memory, the streams that copy to and from it,
// and the memory that processes share.
//
// device.go opens a device and holds what it knows of it. host.go pins memory of the
// host. stream.go orders work, slots.go is the pinned memory that a stream copies
// through. pool.go hands out blocks of segments, export.go describes a segment to other
// processes, imports.go holds those of others, sharing.go says which kind two processes
// can share, process.go tells of the end of one.
//
// # Memory of the device
//
// A [Pool] is an arena of package shm whose segments are memory of a device, 256 MiB to
// 2 GiB each. Its blocks are counted, leased and named by handles like those in host
// memory, but the host can't touch them. A block is freed by its last Release. Where work
// that a stream has yet to do reads or writes the block, the reference is given to
// [Stream.Release].
//
// Where a device has no memory left, Alloc waits for the streams, gives all unused
// segments back and tries once more. Then it returns shm.ErrNoSpace.
//
// # Memory of the host
//
// The driver reads and writes host memory later, without the bounds of a Go program. So
// it is given two kinds alone: pinned slots of the stream, and segments of this process
// that [Device.Register] pinned. All other memory is copied to or from slots by Go.
// Memory of a peer in particular is never given to the driver: the peer may shrink its
// file.
//
// # Memory of other processes
//
// A segment is exported once and opened once by each peer. After that a tensor travels as
// an shm.Handle, with no call of the driver:
//
//	exporter                        importer
//	Pool.Export     -- Export -->   Imports.Add
//	Lease the block -- Handle -->   Imports.Resolve
//	Unlease         <-- done ---
//
// The importer orders its reads behind the exporter's writes by its own means: the
// exporter sends the handle after Sync, or both share an event. An Export and a Handle
// that come from another process are data: Add and Resolve check them, once. A segment's
// id is never used again, so that the id also says which generation of the memory is
// meant.
//
// A process that has an export can write all of the segment. So a session whose client
// reads results in place has a pool of its own, and nothing else is in it.
//
// The memory of an exporter that ended stays until each importer calls ReleaseOwner; the
// blocks of an importer that ended stay until the exporter's arena ends its leases.
//
// # A lost device
//
// After some errors a device is of no use to the process any more. The first such error
// is kept, and all later calls return it as [ErrLost]: the process has to end.
package memory
