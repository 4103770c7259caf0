// Package local is the transport between processes of one host: messages go through
// two rings in shared memory, and nothing in the way of a message is a system call
// unless somebody sleeps.
//
// An address is the path of a unix socket (SOCK_SEQPACKET). Over the socket go
//
//	dialer → listener   Hello, with one descriptor: the dialer's page of bells
//	listener → dialer   Welcome, with two: the conn's segment, the listener's page of bells
//	                    or Refuse
//	both ways           an empty token with descriptors, for every message that carries files
//
// and the socket stays open: the kernel closes it when a process dies, however it dies,
// which the goroutine that reads it sees at once. What had been committed by then is
// still received.
//
//	conn's segment    | ring dialer → listener | ring listener → dialer |
//	page of bells     | data bell | room bell | nothing |
//
// A conn needs no address where two processes have a third to hand a descriptor through:
// Offer makes a pair of such sockets, and whoever is given the other end Takes it; the
// same messages go over it.
//
// The rings are as long as Welcome says. A page of bells belongs to a [Waiter]: its owner
// sleeps on it and its peers ring. A Waiter that was given in the options serves any
// number of conns with one bell, so the two bells are the same; a conn of its own has
// two, for the goroutine that receives and the one that sends. Both files are sealed, so
// that a peer cannot shrink them under the other's feet.
//
// A record's tag is the message's kind, and in its upper eight bits how many files come
// with it.
//
// # Trust
//
// The directory of the socket belongs to the user and is writable by nobody else, and the
// kernel says which user is at the other end. So peers are of the same user (or of the
// group that was allowed) and could do worse things than send nonsense; all the same,
// what is read from them is checked, and a peer that dies, stops or writes anything
// anywhere in the shared pages costs the other its conn and at most the 100 ms of one
// sleep.
package local
