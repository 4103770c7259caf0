// Package tagged moves messages with tags between two ranks of a group, over the conns
// that the group has. A lane is a pair of ranks and a tag: its messages are received in
// the order in which they were sent, and no lane waits for another.
//
// [Lanes] decides what is sent, and takes in what arrives. It has no goroutine and never
// waits: package collective calls it whenever something may have changed.
//
// # How a message moves
//
//	sender                                   receiver
//	up to EagerMax   ── eager: call, bytes ──▶  copied into the buffer of its receive, or
//	                                            kept until that is posted
//	                 ◀── taken ──────────────   bytes that are kept no more
//
//	longer           ── offer: call, id ─────▶  kept, without the bytes
//	                 ◀── accept: id ─────────   once its receive is posted
//	                 ── piece: id, bytes ────▶  copied into the buffer
//	                 ◀── taken ──────────────   bytes of pieces that were copied
//
// A short message is offered, too, while Kept bytes of eager ones are with the receiver.
// Pieces of several messages to one rank alternate. At most Window bytes of pieces are on
// their way, so that they never fill the queue of a conn: what a group says of failures
// finds room.
//
// # Memory
//
// A receiver keeps at most Kept bytes of each sender's messages that it did not ask for,
// and of messages that are offered the header alone, for OfferMax of them. More is a
// fault of the sender ([ipc.ErrCorrupt]), whose Send refuses what could become more
// ([ErrBacklog]). A sender keeps nothing: the buffer of a message is read until its
// transfer has ended.
//
// # Memory that is shared
//
// There is none but the queues of the conns. Between processes of a host those lie in
// shared memory: the sender writes a message's bytes there and the receiver copies them
// out. Between hosts they are streams with checksums.
//
// # Where things are
//
//	format.go    the messages
//	lanes.go     transfers, and what is known of each rank
//	sending.go   from the buffers of sends to the conns
//	arriving.go  from the conns to the buffers of receives
package tagged
