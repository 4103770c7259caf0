// Package local is the transport between processes of one host: messages go through two
// rings in shared memory, and no message needs a system call unless an end sleeps.
//
// An address is the path of a unix socket (SOCK_SEQPACKET). Over the socket go
//
//	dialer → listener   Hello, with one descriptor: the dialer's page of bells
//	listener → dialer   Welcome, with two: the conn's segment, the page of bells
//	                    or Refuse; or Busy, and later one of the two
//	both ways           a token with descriptors, for every message with files
//
// and the socket stays open. The kernel closes it when a process dies, in any way, and
// the goroutine that reads it sees that at once. Messages committed by then are still
// received.
//
//	conn's segment    | ring dialer → listener | ring listener → dialer |
//	page of bells     | data bell | room bell | nothing |
//
// A conn needs no address where two processes have a third to hand a descriptor through:
// Offer makes a pair of such sockets, and the process that is given the other end calls
// Take; the same messages go over it.
//
// The rings are as long as Welcome says. Their memory comes page by page when messages
// first lie there, and [ipc.Trim] gives it back when none do. A page of bells belongs to
// a [Waiter]: its owner sleeps on it and its peers ring. A Waiter that was given in the
// options serves any number of conns with one bell, so the two bells are the same; a conn
// of its own has two, for the goroutine that receives and the one that sends. Both files
// are sealed, so that a peer cannot shrink them under the other's feet.
//
// Peers are let in in the order in which their Hellos came. One for which there is no
// room yet hears by Busy, at once and then every second, how many are before it, and its
// Dial waits up to its context.
//
// A record's tag is the message's kind, and in its upper eight bits how many files come
// with it.
//
// # Trust
//
// The directory of the socket belongs to the user and no other user can write to it, and
// the kernel tells the user at the other end. So peers are of the same user (or of the
// group that was allowed) and could do worse than send nonsense. Everything read from
// them is checked all the same. A peer that dies, stops, or writes anything anywhere in
// the shared pages can end the conn, and can make a sleep of the other end last up to 100
// ms.
//
// The greeting says the layout, the lengths and the places of the bells. Neither end
// learns any of them from shared memory later. A conn's segment is shared by its two ends
// alone. The page of bells of a Waiter is shared by its owner and the peers of all conns
// with that Waiter, so a wrong word there can reach others:
//
//	word                    read by           a wrong value costs
//	page of bells
//	  magic, version        Inspect           the owner: Inspect shows a segment
//	  state                 owner, peers      all conns of the Waiter: wakes are lost
//	                                          and a sleep lasts up to 100 ms; or the
//	                                          owner wakes for nothing: processor time
//	  barrier               peers             0: a peer makes a fence for each message;
//	                                          else, where the system has no barrier,
//	                                          the same as state
//	  the rest              nothing           nothing
//	conn's segment, a ring
//	  magic, version,       both ends, once,  the conn: it does not open
//	  capacity              and Inspect
//	  head                  producer          the conn: ErrCorrupt; or its writer loses
//	                                          messages that it has not read
//	  want                  consumer          the writer: it is rung for nothing, or
//	                                          not for room
//	  header of a record    consumer          the conn: ErrCorrupt; or the writer sends
//	                                          other messages than it meant
//	  body of a record      consumer          the writer: other messages
//	  the rest              nothing           nothing
//
// A peer can also sleep on the word state, or requeue its sleepers: that costs as much as
// a wrong state. Inspect also reads head, want, state and barrier, and only shows them.
// When the socket has ended and an end has closed, it empties the segment: all words are
// then 0, those of the headers too (conn.release).
//
// Package shm lists the attacks on the files. TestEveryWord stores values in each of
// these words.
//
// # Descriptors
//
// A process may have a limited number of descriptors, of which an open conn costs one. To
// run out of them is no peer's fault:
//
//   - A quarter, 256 at most, is kept for workers, for control, for greetings and for
//     descriptors that are on their way. A client that comes when all others are open is
//     refused: "too many clients: 256 descriptors, raise it by ulimit -n 1024, …".
//   - The kernel drops descriptors for which there are no numbers left. So a datagram is
//     looked at before it is received, and stays in the socket until all of its
//     descriptors have come.
//   - Descriptors come ahead of their messages, and are counted for each conn: those for
//     more than ipc.MaxFilesAhead messages end it. When half of the kept ones are in use
//     as well, the client's conn that has the most ends, if it has more than 8.
//   - Offer makes no offer while descriptors are few: the two ends go on as they are.
package local
