// Package tcp is the ipc.Transport between hosts, and its conns are ipc.Bulk. Addresses
// are host:port of IPv4 or IPv6; port 0 picks a free one.
//
// # On the wire
//
// Each connection begins with four greetings. All numbers are little endian.
//
//	greeting   | magic "RSTC" | length uint32 | kind uint8 | fields |
//
//	dialer   → hello      version uint32, nonce 32 bytes, purpose uint8, then
//	                      of a conn: Hello of ipc/wire; of a bulk socket: its conn's token, 16 bytes
//	listener → challenge  nonce 32 bytes
//	dialer   → proof      HMAC-SHA256, 32 bytes
//	listener → welcome    HMAC-SHA256, 32 bytes; of a conn also its token and Welcome of ipc/wire
//	        or refuse     Refuse of ipc/wire, at any point
//
// The proofs are keyed with Options.Secret and cover a label for the direction and the
// hash of every byte of the greetings so far, in both directions. So a proof says that
// its sender knows the secret and saw the same greetings, and is good for nothing else:
// not for another connection, nor for the other direction. The secret never travels. A
// peer without it is refused, counted and logged; one that does not speak this protocol
// at all is told so in one line of plain text.
//
// A conn is two sockets. The first carries messages:
//
//	frame      | length uint32 | kind uint32 | released uint32 | body |
//
// where released is how many messages its sender has released so far, modulo 2^32, and
// the highest bit of kind says that there is no message at all, only that count. The
// second, which the dialer opens with the token, carries bulk transfers:
//
//	transfer   | magic "RSTB" | 0 uint32 | tag uint64 | length uint64 | bytes |
//
// # Flow control
//
// Either end keeps what it has committed in a queue of Options.RingBytes until the peer
// has released it, and has room for twice as much of the peer's: what is in flight always
// fits, whatever the alignment, and nothing is dropped or buffered without limit. The
// socket of messages is therefore always drained, so that a full queue in one direction
// holds up nothing in the other. A peer that sends more than its window has broken the
// protocol.
//
// # Who reads
//
// Messages are read by netpoll, which owns one descriptor of the socket, and are written
// by whoever commits them, as far as the kernel takes them. Bulk sockets are read and
// written by the goroutine that calls Progress, with system calls that never block,
// straight into and out of the caller's memory: while that goroutine polls, nobody else
// is involved and no other thread is woken, which is what makes a small exchange take 6
// µs and not 30. Only when its Waiter is about to sleep are the sockets that it waits for
// handed to an epoll of ours, for one event each.
//
// # Trust
//
// What a peer sends is data: lengths are checked before anything is read or allocated,
// and whoever has not proved to know the secret gets neither memory nor a place in any
// queue for longer than Options.HandshakeTimeout. There is no encryption, and nothing but
// TCP's checksum protects what follows the greetings: on a network that strangers can
// write to, put a tunnel (WireGuard, ssh, IPsec) under it. Without a secret a listener
// takes loopback addresses only.
package tcp
