// Package ipc is the contract between processes: an ordered, framed, reliable
// stream of messages to a peer ([Conn]), how one is made ([Transport],
// [Listener]) and what one goroutine sleeps on for many of them ([Waiter]).
//
// Package ipc/encoding defines the greetings and how the fields of a message are encoded;
// the messages are their users'. Transports carry them: ipc/local over shared memory on
// one host, net/tcp between hosts, whose conns also move bytes outside their queues
// ([Bulk]). [Features] lists the abilities of a conn. Every transport passes the suite of
// ipc/ipctest.
//
// # Sending
//
// Reserve gives a slice inside the outgoing queue, the caller fills it in place,
// and Commit hands it over (or Abort forgets it). Nothing is copied:
//
//	buf, err := conn.Reserve(ctx, kind, n)
//	if err != nil { ... }
//	fill(buf)
//	err = conn.Commit()
//
// # Receiving
//
// Recv and TryRecv give the oldest message where it lies. It stays valid until
// Release, which must come before the next Recv:
//
//	msg, err := conn.Recv(ctx)
//	if err != nil { ... }
//	use(msg.Body)
//	conn.Release()
//
// # Many conns, one goroutine
//
// A loop that serves many peers opens them all with one [Waiter], calls TryAccept
// and TryRecv on each, and sleeps with Wait when none had anything:
//
//	for {
//		err := waiter.Wait(ctx, func() bool { return serveOnce(conns) })
//		...
//	}
package ipc
