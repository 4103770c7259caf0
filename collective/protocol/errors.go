package protocol

import (
	"errors"
	"fmt"
	"strings"
)

var (
	// ErrPeerLost is returned when a rank died or left while its part in a call was
	// missing.
	ErrPeerLost = errors.New("collective: rank lost")

	// ErrTimeout is returned when ranks did not come within the time a call may take.
	ErrTimeout = errors.New("collective: timed out")

	// ErrMismatch is returned when ranks that met were not in the same call. See
	// MismatchError.
	ErrMismatch = errors.New("collective: calls do not match")

	// ErrAborted is returned when a rank gave up, for a reason of its own, what others
	// were waiting for.
	ErrAborted = errors.New("collective: aborted")

	// ErrBadCall is returned for a buffer, count, rank or root that does not fit the
	// call, before anything is sent, and for bytes that are not a Call.
	ErrBadCall = errors.New("collective: bad call")
)

// PeerError says in which call and because of which rank a collective failed. It unwraps
// to Err, which is or wraps a sentinel of this package or the error of a context. Ranks
// are those of the communicator that returned it.
type PeerError struct {
	Rank    int   // the rank at fault, -1 if it is no rank in particular
	Missing []int // with ErrTimeout: all that had not come, ascending; Rank is the first
	Call    Call  // the caller's call; the zero Call outside of one
	Err     error
}

// Error names the call, the rank or ranks, and the reason.
func (e *PeerError) Error() string {
	var b strings.Builder
	if e.Call.Kind != NoKind {
		fmt.Fprintf(&b, "%v: ", e.Call)
	}
	switch {
	case len(e.Missing) > 1:
		list := strings.ReplaceAll(fmt.Sprint(e.Missing), " ", ", ")
		fmt.Fprintf(&b, "ranks %s: ", strings.Trim(list, "[]"))
	case e.Rank >= 0:
		fmt.Fprintf(&b, "rank %d: ", e.Rank)
	}
	fmt.Fprintf(&b, "%v", e.Err)
	return b.String()
}

// Unwrap returns Err.
func (e *PeerError) Unwrap() error { return e.Err }

// MismatchError holds the calls of two ranks at the same point. It unwraps to
// ErrMismatch. The PeerError around it names the rank of Theirs.
type MismatchError struct {
	Ours, Theirs Call // Theirs is the zero Call when the peer did not say
}

// Error names both calls.
func (e *MismatchError) Error() string {
	return fmt.Sprintf("%v: %s", ErrMismatch, e.Difference("this rank"))
}

// Difference returns a text that names both calls. It calls our side us: "this rank"
// where the error is found, "rank 3" elsewhere.
func (e *MismatchError) Difference(us string) string {
	if e.Theirs.Kind == NoKind {
		return fmt.Sprintf("it is in another call than %v and did not say which", e.Ours)
	}
	return fmt.Sprintf("it is in %v, %s in %v", e.Theirs, us, e.Ours)
}

// Unwrap returns ErrMismatch.
func (e *MismatchError) Unwrap() error { return ErrMismatch }
