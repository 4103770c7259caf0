// Package client is a tensor.Engine whose programs run in worker processes, reached
// through a dispatcher.
//
// # One message a batch
//
// Submit sends one Run and does not wait unless a value is fetched or a sync is asked
// for. The body of a program precedes its first Run. The client records which programs
// the worker remembers, so it need not ask. A Run also carries uploads as handles, ids to
// free, and results to give back.
//
// Where the dispatcher and all workers are of this host, a session has a connection of
// its own with its (first) worker (own.go). A step is then one message there and one back
// between two processes; the first worker passes messages on to the others. Otherwise the
// dispatcher forwards them. With such a connection a session of one worker goes on when
// the dispatcher dies, and with the next one at the same address, once there is one.
//
// # Memory
//
// Uploads are written into blocks of an arena of this process, where the worker reads
// them in place. The worker's answers say which blocks are free again. Fetched values are
// read in place in the worker's memory, mapped here for reading, and given back with the
// next Run after Release; values of up to 64 bytes are part of the answer. If the session
// fails while a value is read, the worker leaves its bytes as they are until Close.
//
// A worker of another host shares no memory. When the session opens, it and the client
// open a data connection, in the direction that works. Uploads use it, and a Run is sent
// when its uploads have arrived. Fetched values use it too, and arrive in blocks of the
// arena. The session ends with this connection.
//
// # Several workers
//
// With Options.Workers or Options.Config several workers run the programs together, each
// on its part of the tensors, as the config says or else as is cheapest. A Run and its
// answer are the same as for one worker. Uploads are written once, and each worker copies
// its part; a worker on another host is sent its part alone where the upload's signal
// decides the part. A fetched value that lies in parts is put together here with one
// copy; one that each worker has is read in place.
//
// # Errors
//
// An error of a batch that was not waited for is returned by the next Submit that waits.
// An error that ends the session (the worker or the dispatcher died, the protocol was
// broken) is ErrLost from then on. It names the process that died or, when the dispatcher
// gives no reason within 5 s, the worker whose connection ended: that one may be alive,
// because a worker hangs up when it gives a session up. Messages are handled in calls,
// and in an idle session every few seconds.
package client
