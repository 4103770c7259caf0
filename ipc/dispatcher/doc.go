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
//
// A message is forwarded by copying its body into the other queue and overwriting the eight
// bytes of the session's id. Tensors never come through here: they lie in memory that client and
// worker share, and messages name it. What small ones a message carries itself is counted
// (Stats.TensorBytes), so that this can be seen to hold.
//
// Where client or worker is on another host, reached through a listener of net/tcp, they share no memory. The
// dispatcher tells both when it opens the session, and the bytes of uploads and results travel in messages of
// their own, through here.
//
// # Sessions
//
// A client opens one session per conn. The dispatcher numbers it, never with the same number
// again, and picks the worker with the fewest sessions. Only the client of a session can send to it
// and only its worker can answer it, whatever number a message says.
//
// A session ends with its client, by Bye or by death, and the worker frees what it held. When
// the worker dies, its sessions' clients are told which worker it was and what happened to it.
package dispatcher
