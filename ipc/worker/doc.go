// Package worker runs the programs of many sessions on one device, as a dispatcher hands
// them over.
//
// A worker is one goroutine: it receives a message, does what it says, and answers where an answer
// was asked for. The programs of a session run one after the other in the order they came. Between
// sessions the worker's time is shared out evenly: the next message is that of the session that has used
// the least, and a session that comes back from idling does not get what it left unused. A session whose
// messages come faster than they are run has the dispatcher hold them back, so that
// they wait in that client's own queue.
//
// # What is shared
//
// A client's uploads are read where they lie, in segments of the client that are mapped here
// for reading; their memory is given back when the last value over it is freed. Results lie in the
// device's arena, whose segments each session is given before the first handle into them. A result
// that was handed out is leased to its session: its memory stays as it is until the client
// gives it back, whatever happens to the value.
//
// A client of another host shares nothing. Its uploads arrive as messages, into blocks of the arena, before the
// batch that names them, and it asks for the bytes of a result part by part before it gives the lease back.
//
// # Limits
//
// What comes from a client is checked before it is used: handles against the segments that the same
// session announced, programs by inference and by their hash, ids against the session's own.
// Clients' memory is taken only sealed, so that it stays readable whatever they do, and of the
// worker's they can only read (see Segments and package shm). All sessions of a worker share its
// arena: a client can read the results of others, all of which belong to the same user, or to the group that
// was let in.
//
// A session that breaks the protocol is failed and the worker goes on. When a session ends, by
// whatever cause, its values, leases and mappings go with it.
package worker
