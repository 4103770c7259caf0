// Package client is a tensor.Engine whose programs run in a worker process, reached
// through a dispatcher.
//
// # One message a batch
//
// Submit sends one Run and does not wait unless a value is fetched or a sync is asked
// for. The body of a program goes ahead of it the first time; what the worker remembers
// is known here, so nobody asks. Everything else rides along in the Run: uploads as
// handles, ids to free, results given back.
//
// Where the dispatcher and all workers are of this host, a session has a conn of its own
// with its worker, the first of several (own.go): a round is then one message there and
// one back between two processes; the first worker passes messages on to the others.
// Otherwise the dispatcher forwards.
//
// # Memory
//
// Uploads are written into blocks of an arena of this process, where the worker reads
// them in place; a block is free again when the worker says so, which it does in its
// answers. Fetched values are read in place in the worker's memory, mapped here for
// reading, and given back with the next Run after Release; those of up to 64 bytes come
// in the answer.
//
// A worker of another host shares nothing. When the session is opened it and the client
// open a conn of their own, whichever can reach the other. What is uploaded goes over it,
// and its Run is sent when the worker has it; what is fetched comes over it into blocks
// of the arena here, so that it is read in place all the same. If that conn ends the
// session does.
//
// # Several workers
//
// With Options.Workers or Options.Config several workers run the programs together, each
// on its part of the tensors, as the config says and otherwise as is cheapest. A Run and
// its answer stay what they are; uploads are written once, and each worker copies its
// part, or is sent it where it is on another host and the config says which part that is,
// of the upload's signal alone. A fetched value that lies in parts is put together here,
// with one copy; one that each worker has is read in place.
//
// # Errors
//
// An error of a batch that nobody waited for is returned by the next Submit that waits.
// What ends the session (the worker or the dispatcher died, the protocol was broken) is
// ErrLost from then on, naming who died.
package client
