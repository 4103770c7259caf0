// Package dispatcher is the process between clients and workers: it accepts both, places
// each client's session on a worker, and forwards messages from one to the other.
//
// It is one goroutine. A turn looks at every conn once and takes some of its messages, so
// that no peer waits for another's; when a turn finds nothing, the goroutine sleeps on the one
// waiter that all conns wake. It never waits for a single peer:
//
//   - A message for a worker whose queue is full stays in its client's queue, and the client
//     notices when that is full as well.
//   - A worker says when enough of a session waits for it. Then that session's messages stay in its
//     client's queue, and those of others go on.
//   - A message for a client whose queue is full is kept here, up to Options.MaxQueued bytes. A
//     client that reads nothing loses its session, and the worker's other clients lose nothing.
//   - Clients without an open session are no more than Options.MaxIdle: one more ends the oldest of them.
//   - That a session was opened or closed is never refused: it is kept for a worker whose queue is full. When that
//     comes to more than MaxQueued bytes, nobody opens further ones until the worker reads.
//
// A message is forwarded by copying its body into the other queue and overwriting the eight
// bytes of the session's id. Tensors never come through here: they lie in memory that client and
// worker share, and messages name it. What small ones a message carries itself is counted
// (Stats.TensorBytes), so that this can be seen to hold.
//
// A session whose workers are on the same host as its client and this dispatcher does without it once it is open: a descriptor comes along
// with the first worker's SessionOpened, with which the client takes a conn of its own to that. All that is left to do
// here is to open the session, to end it, to say why it ended, and to forward what other workers than the first answer. What is counted here as forwarded does not have those
// messages; the workers count them (Watch).
//
// Where client or worker is on another host, reached through a listener of net/tcp, they share no memory. The
// dispatcher tells the worker when it opens the session, with a token that nobody else has, and passes a few short texts (Link) from one
// to the other: where they can be reached. They open a conn of their own, in the direction that works, prove to each other to
// know the token, and uploads and results go over it. So no byte of them comes through here either.
//
// # Several workers
//
// A session may ask for several workers. They run it together. Where they are of one host, with the client, the first passes the messages on to
// the others, when it has the turn, which is given here (turns.go). Otherwise every message of the client goes to all of them or, while one has
// no room, to none, so that they all see the same messages in the same order, also those of different sessions. Each of
// them computes for itself how tensors lie and what its part of a program is (package tensor/cluster/worker says how): the dispatcher
// knows nothing of it, reads no program, and forwards a step as one short message to each. What workers exchange before they
// have conns of their own, addresses, goes through here; their data does not.
//
// Sessions of several workers can't take turns in the workers, which must all do the same in the same order. So they take them here: of
// those whose messages are forwarded each has at most one Run that has not begun, where a worker has more than one, and the first of its
// workers says when it begins; the others ask for their turns.
//
// They are of one host if one has enough, this one before others, and otherwise of as few hosts as can be; the ones with the fewest
// sessions first. By rank those of a host follow each other, so that the last dim of a mesh, along which most is said, lies within a host.
// When there are not enough, the session waits as it does for a single one, and is then told how many there are.
//
// # Sessions
//
// A client opens one session per conn. The dispatcher numbers it, never with the same number
// again, and picks the worker with the fewest sessions. Only the client of a session can send to it
// and only its workers can answer it, whatever number a message says.
//
// A session ends with its client, by Bye or by death, and the worker frees what it held. When
// a worker dies, its sessions' clients are told which worker it was and what happened to it, and the other workers of those
// sessions that they are over.
package dispatcher
