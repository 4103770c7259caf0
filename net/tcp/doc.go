// Package tcp is the ipc.Transport between hosts; its conns have ipc.Bulk. Addresses are
// host:port of IPv4 or IPv6; port 0 picks a free one.
//
// # On the wire
//
// Each connection begins with four greetings. All numbers are little endian.
//
//	greeting   | magic "RSTC" | length uint32 | kind uint8 | fields |
//
//	dialer   → hello      version uint32, nonce 32 bytes, purpose uint8, then
//	                      of a conn: sums uint8, Hello of ipc/encoding;
//	                      of a bulk socket: its conn's token, 16 bytes
//	listener → challenge  nonce 32 bytes
//	dialer   → proof      HMAC-SHA256, 32 bytes
//	listener → welcome    HMAC-SHA256, 32 bytes;
//	                      of a conn also its token, sums uint8 and Welcome of ipc/encoding
//	        or refuse     Refuse of ipc/encoding, at any point
//	        or busy       Busy of ipc/encoding, any number of times ahead of the welcome
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
//	frame      | length uint32 | kind uint32 | released uint32 |
//	           | sum uint32 | stream's sum uint32 | body |
//
// where released is how many messages its sender has released so far, modulo 2^32, and
// the highest bit of kind says that there is no message at all, only that count. The
// second, which the dialer opens with the token, carries bulk transfers:
//
//	transfer   | magic "RSTB" | tag uint64 | length uint64 | stream's sum uint32 |
//	           | bytes | stream's sum uint32 |
//
// without the last sum where there are no bytes.
//
// # Damage
//
// All sums are CRC32C. That of a frame is its body's. A stream's sum covers everything
// before it in its direction of its socket, but for bodies of frames and the sums
// themselves. It begins with the token and the direction. So these are ErrDamaged, which
// ends the conn on both sides before a message or a transfer is handed over: damage that
// TCP's own checksum misses, and bytes that a program in the middle loses, repeats or
// sends elsewhere. The comment in beat.go says how an end finds that the last bytes are
// missing.
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
// The memory of both queues is mapped: a conn takes what its messages have touched of it,
// and gives all back at once when it is closed (memory.go).
//
// # Readers and writers
//
// Messages are read by netpoll, which owns one descriptor of the socket. The goroutine
// that commits them writes them, as far as the kernel takes them. Bulk sockets are read
// and written by the goroutine that calls Progress, with system calls that never block,
// straight into and out of the caller's memory: while that goroutine polls, no other
// thread is involved or woken, which makes small exchanges several times faster
// (docs/decisions.md). Only when its Waiter is about to sleep are the sockets that it
// waits for added to an epoll of this package, for one event each.
//
// # Trust
//
// Everything that a peer sends is data: lengths are checked before anything is read or
// allocated. A caller that has not proved to know the secret gets no memory, and its
// connection ends after Options.HandshakeTimeout, or earlier if too many callers are in
// the handshake. Without TLS nothing is encrypted, and a checksum is no proof against a
// stranger that can write to the network. Without a secret a listener takes loopback
// addresses only.
//
// # TLS
//
// With Options.TLS both sockets begin with a handshake of TLS 1.3, in which both ends
// show a certificate. The greetings and everything behind them are records of crypto/tls.
// It authenticates every record, so there are no checksums. An end that speaks TLS to one
// that does not gets an error, and so does the other. The goroutine that sends seals, and
// the one that receives opens: package tls gets a buffer in place of a socket, and
// unix.EAGAIN where nothing has come.
package tcp
