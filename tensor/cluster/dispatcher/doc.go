// Package dispatcher is the process between clients and workers: it accepts both, places
// each client's session on its workers, and forwards messages between them.
//
// It is one goroutine. A round looks at connections, at each once, and handles some of
// its messages, so that no peer waits for another's. Connections that had messages lately
// are looked at in every round, and the others by turns (roster.go). When rounds find
// nothing, the goroutine looks at all of them and sleeps on the one waiter that they
// wake. It never waits for a single peer:
//
//   - A message for a worker whose queue is full stays in its client's queue. The client
//     notices when that is full as well.
//   - A worker says when enough messages of a session wait for it. Then that session's
//     messages stay in its client's queue, and those of others pass.
//   - A message for a client whose queue is full is kept here, up to Options.MaxQueued
//     bytes. A client that reads nothing loses its session, and the worker's other
//     clients lose nothing.
//   - At most Options.MaxIdle clients have no open session and none to resume: one more
//     waits until one has, and after Options.IdleWait ends the oldest of them.
//   - Messages that open and close sessions are never refused: they are kept for a worker
//     whose queue is full. While more than MaxQueued bytes of them are kept for a worker,
//     no session opens.
//
// The dispatcher forwards a message by copying its body into the other queue and
// overwriting the eight bytes of the session's id. Tensors do not pass through it: they
// lie in memory that client and worker share, and messages name it. It counts the bytes
// of small tensors that messages carry themselves (Stats.TensorBytes).
//
// A session whose worker is on the same host as its client and this dispatcher bypasses
// it once it is open: with the first worker's SessionOpened comes a descriptor, by which
// the client takes a connection of its own to the worker. The dispatcher opens the
// session, ends it, says why it ended, and forwards the answers of workers other than the
// first. It does not count the messages that bypass it; the workers do (Watch).
//
// A client or worker on another host, reached through a listener of net/tcp, shares no
// memory. The dispatcher tells the worker so when it opens the session, with a secret
// token, and passes a few short texts (Link) between the two: the addresses at which they
// can be reached. They open a connection of their own in the direction that works, prove
// to each other that they know the token, and move uploads and results over it.
//
// When a dispatcher dies, its sessions of that kind that have one worker go on. Their
// workers and their clients connect to the next dispatcher and name them to it
// (resume.go).
//
// # Several workers
//
// A session may ask for several workers, which run it together. Where they and the client
// are of one host, the first worker passes the messages on to the others while the
// session has the turn, which the dispatcher gives (package turn). Otherwise every
// message of the client goes to all workers or, while one has no room, to none. (Link
// goes to one worker, and Segment not to workers of other hosts.) So all of them see the
// same messages in the same order, also those of different sessions. Each computes for
// itself how tensors lie and its part of a program (package tensor/cluster/worker). The
// dispatcher reads no program, and forwards a step as one short message to each. Before
// workers have connections of their own it passes their addresses on.
//
// If one of the workers has another session of several workers, the dispatcher sends a
// forwarded Run of a session only when the session's Run before it has begun (runPending
// in forward.go). Such a Run has the flag
// RunTurn, and the first worker sends Flow when it begins.
//
// The workers of a session are of one kind of device, unless the session takes several
// kinds. They are of one host if one has enough, this host before others, and otherwise
// of as few hosts as possible. By rank those of a host follow each other, so that the
// last dim of a mesh, which has the most communication, lies within a host. When there
// are not enough workers the session waits for Options.WorkerWait, and is then told how
// many there are.
//
// # Sessions
//
// A client opens one session per connection. The dispatcher numbers it, never with the
// same number again, nor with one that a dispatcher before it gave to a session of its
// workers. Only the client of a session can send to it and only its workers can answer
// it, whatever number a message says.
//
// A worker that says nothing about a session which it is to open, for Options.AnswerWait,
// is passed over until it is heard again. The session goes to another worker, unless it
// has begun on one of several (silent.go).
//
// A session ends with its client, by Bye or by the end of the connection, and its workers
// free its memory. It also ends when a worker reports its failure, when one of its
// workers is gone, when it has waited too long for workers, when its client leaves too
// many answers unread, and when its client breaks the protocol.
//
// When a worker is gone, the clients of its sessions are told its name and pid, and that
// it closed its connection or died (its own reason if it gave one). When another worker
// reports first that one is gone, its report is held back for up to a second, so that the
// client hears which one and why (givenup.go). The other workers of those sessions get
// CloseSession. When the client of a session that has failed closes it
// or is gone, the workers get CloseSession again, with CodeOK: they keep the results that
// are leased to the client until then.
package dispatcher
