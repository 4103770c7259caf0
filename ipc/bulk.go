package ipc

import "fmt"

// Bulk is the part of a Conn that moves bytes outside its queue: from the sender's memory
// straight into the receiver's, for large or urgent data. See [Features].
//
// A transfer is a tag and a number of bytes, cut into parts as either end likes. The n-th
// BeginSend of one end meets the n-th BeginRecv of the other; both must give the same tag
// and the same total, and none may be skipped. One transfer per direction is under way at
// a time. The two directions are independent of each other and of messages: bulk has
// sockets of its own, so neither holds up the other and there is no order between them.
//
// Nothing here blocks. Begin and Progress move the bytes that can be moved now, and the
// caller repeats Progress until done, usually all of its transfers within one
// Waiter.Wait:
//
//	err := waiter.Wait(ctx, func() bool {
//		if !sent { sent, errSend = c.ProgressSend() }
//		if !received { _, received, errRecv = c.ProgressRecv() }
//		return sent && received || errSend != nil || errRecv != nil
//	})
//
// The conn's Waiter is woken when a transfer under way may go on: when bytes have arrived
// or may be written, and when the conn ends. There may be more wakes than progress.
//
// The parts belong to the transfer from Begin until it is done or has failed. Until then
// the sender's must not be written, and the receiver's hold anything beyond the first got
// bytes. Those are checked for damage when the transfer is done, not before. After an
// error or Close the caller may use the parts at once, because only the methods here
// touch them.
//
// One goroutine may send while another receives. Every error ends bulk in both directions
// and is returned again by every later call; the conn's messages go on unless the conn
// itself has ended.
//
// Errors: ErrBulkMismatch, ErrPeerGone, ErrCorrupt, net.ErrClosed after Close.
type Bulk interface {
	// BeginSend starts sending the parts, one after the other, under a tag. The slice of
	// slices is copied, what they hold is not. No part at all is a transfer of nothing,
	// which the peer must receive all the same. It panics while a send is under way: a
	// caller's bug.
	BeginSend(tag uint64, parts ...[]byte) error

	// ProgressSend writes what can be written now and reports whether all of it has been
	// handed over: the parts are the caller's again. Without a send under way it is done.
	ProgressSend() (done bool, err error)

	// BeginRecv starts receiving into the parts, one after the other. It panics while a
	// receive is under way. The peer's next transfer must have this tag and the parts'
	// total length, else the error is ErrBulkMismatch, which names both.
	BeginRecv(tag uint64, parts ...[]byte) error

	// ProgressRecv reads what has arrived. The first got bytes of the parts, counted over
	// all of them, are in place and stay as they are. Without a receive under way it is
	// done.
	ProgressRecv() (got int, done bool, err error)
}

// BulkMismatchError says what the two ends of a bulk transfer disagreed about. It unwraps
// to ErrBulkMismatch.
type BulkMismatchError struct {
	Peer             Peer
	Tag, PeerTag     uint64 // ours, and what the peer sent
	Bytes, PeerBytes int64  // the totals
}

// Error returns the bytes and tags of both ends.
func (e *BulkMismatchError) Error() string {
	return fmt.Sprintf("%v: %s %q (pid %d) sent %d bytes with tag %#x, expected %d with tag %#x",
		ErrBulkMismatch, e.Peer.Role, e.Peer.Name, e.Peer.PID, e.PeerBytes, e.PeerTag, e.Bytes, e.Tag)
}

// Unwrap returns ErrBulkMismatch.
func (e *BulkMismatchError) Unwrap() error { return ErrBulkMismatch }
