package ipc

import (
	"context"
	"errors"
	"fmt"
	"os"
)

var (
	// ErrPeerGone is returned when the peer closed the conn or its process died, after
	// every message that it had committed was received.
	ErrPeerGone = errors.New("ipc: peer gone")

	// ErrFull is returned by TryReserve when there is no room now.
	ErrFull = errors.New("ipc: queue full")

	// ErrMessageTooLarge is returned for a message that could never fit.
	ErrMessageTooLarge = errors.New("ipc: message too large")

	// ErrVersion is returned when the two ends speak different versions.
	ErrVersion = errors.New("ipc: version not supported")

	// ErrRefused is returned by Dial when the listener refuses this peer; the text gives
	// the reason. ErrVersion is also ErrRefused when the listener said so.
	ErrRefused = errors.New("ipc: refused")

	// ErrSecret is returned by Dial when the two ends do not have the same secret: the
	// listener refused the proof (then it is also ErrRefused), or gave a wrong one
	// itself.
	ErrSecret = errors.New("ipc: secrets differ")

	// ErrNotRingside is returned by Dial when the listener speaks another protocol.
	ErrNotRingside = errors.New("ipc: the listener does not speak this protocol")

	// ErrCorrupt is returned when the peer broke the protocol. The conn is unusable.
	ErrCorrupt = errors.New("ipc: peer broke the protocol")

	// ErrDamaged is returned when a checksum does not match: bytes changed, got lost or
	// came twice on the way. It is also ErrCorrupt.
	ErrDamaged error = damaged{}

	// ErrAddrInUse is returned by Listen when a living process has the address.
	ErrAddrInUse = errors.New("ipc: address in use")

	// ErrNoListener is returned by Dial when no process listens at the address.
	ErrNoListener = errors.New("ipc: no process listens")

	// ErrTooManyFiles is returned by Commit for more than MaxFiles descriptors.
	ErrTooManyFiles = errors.New("ipc: too many files")

	// ErrFilesUnsupported is returned by Commit when the transport cannot carry
	// descriptors (it crosses hosts).
	ErrFilesUnsupported = errors.New("ipc: transport carries no files")

	// ErrBadKind is returned by Reserve for a kind over MaxKind.
	ErrBadKind = errors.New("ipc: bad message kind")

	// ErrBulkMismatch is returned by ProgressRecv when the peer sent something else than
	// was to be received. See BulkMismatchError for both.
	ErrBulkMismatch = errors.New("ipc: bulk transfer does not match")

	// ErrBadOption is returned by Dial and Listen for an option outside its range.
	ErrBadOption = errors.New("ipc: bad option")
)

type damaged struct{}

func (damaged) Error() string        { return "ipc: data was damaged on the way" }
func (damaged) Is(target error) bool { return target == ErrCorrupt }

// PeerError says which peer an error came from. It unwraps to Err, which is or wraps
// one of the sentinels.
type PeerError struct {
	Peer Peer
	Err  error
}

// Error names the peer and its process.
func (e *PeerError) Error() string {
	at := ""
	if e.Peer.Addr != "" {
		at = " at " + e.Peer.Addr
	}
	return fmt.Sprintf("%s %q (pid %d)%s: %v", e.Peer.Role, e.Peer.Name, e.Peer.PID, at, e.Err)
}

// Unwrap returns Err.
func (e *PeerError) Unwrap() error { return e.Err }

// ContextError is the error for a ctx that is done: its cause, and for a deadline also
// os.ErrDeadlineExceeded. It is nil while ctx is not done.
func ContextError(ctx context.Context) error {
	err := ctx.Err()
	if err == nil {
		return nil
	}
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, err) {
		err = fmt.Errorf("%w: %w", err, cause)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%w: %w", os.ErrDeadlineExceeded, err)
	}
	return err
}
