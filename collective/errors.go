package collective

import (
	"errors"
	"fmt"
	"strings"

	"github.com/ringside-go/ringside/collective/internal/tagged"
	"github.com/ringside-go/ringside/collective/protocol"
	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/shm/plain"
)

// Errors of calls that began, inside an [Error].
var (
	// ErrPeerLost is returned when a rank's process died, its conn broke, or it left the
	// group while others called.
	ErrPeerLost = protocol.ErrPeerLost

	// ErrTimeout is returned when a rank did not come to a call, or stopped in it, within
	// Options.Timeout.
	ErrTimeout = protocol.ErrTimeout

	// ErrMismatch is returned when ranks made different calls: another primitive, op,
	// dtype, count, root or order.
	ErrMismatch = protocol.ErrMismatch

	// ErrAborted is returned when another rank gave up: its context was done, or it
	// closed its group in a call.
	ErrAborted = protocol.ErrAborted
)

// Errors of calls that are refused before anything is sent. The group works on; the
// others wait for a right call of this rank.
var (
	// ErrLength is returned for slices whose lengths do not belong together.
	ErrLength = errors.New("collective: wrong length")

	// ErrOverlap is returned for slices that share memory in another way than the call
	// allows.
	ErrOverlap = errors.New("collective: buffers overlap")

	// ErrRank is returned for a rank that is not in the group.
	ErrRank = errors.New("collective: no such rank")

	// ErrOp is returned for an operation that the element type does not have.
	ErrOp = errors.New("collective: operation not supported")

	// ErrObject is returned on every rank when one rank's object could not be encoded or
	// is too large.
	ErrObject = errors.New("collective: object refused")

	// ErrOption is returned for an option outside its range.
	ErrOption = errors.New("collective: bad option")

	// ErrBacklog is returned for a send with a tag while 16,384 others to that rank wait
	// for their receives.
	ErrBacklog = tagged.ErrBacklog

	// ErrExcluded is returned by Shrink to a rank that the others went on without.
	ErrExcluded = errors.New("collective: not among the survivors")
)

// Error says which rank made a call fail. Afterwards the group is dead on every rank:
// each call returns an Error with the same rank and cause, the content of the failed
// call's destination is undefined, and only Shrink and Close are of use.
type Error struct {
	Rank int    // at fault; this rank itself if its context was done
	Name string // of Rank, if it has one in route.MeshOptions
	Host string // of Rank
	Call string // this rank's call, as in "all-reduce #17 sum f32 x 1000"
	By   int    // the rank that found the error and told the others
	// the file with this rank's last calls (Options.Flight); empty if there is none
	Flight string
	// ErrPeerLost, ErrTimeout, ErrMismatch or ErrAborted with the details, or a context's
	Err error
}

// Error names the call, the rank, its host and the reason.
func (e *Error) Error() string {
	name := ""
	if e.Name != "" {
		name = fmt.Sprintf(" (%q)", e.Name)
	}
	text := fmt.Sprintf("%s: rank %d%s on host %q: %v", e.Call, e.Rank, name, e.Host, e.Err)
	if e.Flight != "" {
		text += "; this rank's last calls are in " + plain.Name(e.Flight)
	}
	return text
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// failure is why a group is dead, as the ranks tell each other.
type failure struct {
	Rank int
	By   int
	Code string // of the sentinel
	Text string // what follows the sentinel's text in the error

	err error // as found here; nil if another rank told
}

// codes are the names of sentinels in messages. The last one stands for everything else.
var codes = [...]struct {
	name     string
	sentinel error
}{{"lost", ErrPeerLost}, {"timeout", ErrTimeout}, {"mismatch", ErrMismatch}, {"aborted", ErrAborted}}

// codeOf returns the name of err's sentinel in messages.
func codeOf(err error) string {
	for _, c := range codes {
		if errors.Is(err, c.sentinel) {
			return c.name
		}
	}
	return codes[len(codes)-1].name
}

// sentinelOf returns the sentinel of a name in messages.
func sentinelOf(code string) error {
	for _, c := range codes {
		if c.name == code {
			return c.sentinel
		}
	}
	return ErrAborted
}

// departure says that a rank has closed its group: it made so many calls of all ranks,
// and later ones fail.
type departure struct {
	calls   uint64
	failure *failure
}

// leftGroup returns the failure of a call after a rank closed its group.
func leftGroup(rank, by int, calls uint64) *failure {
	return &failure{Rank: rank, By: by, err: fmt.Errorf("%w: it closed its group after %d calls", ErrPeerLost, calls)}
}

// spell fills in what the others are told of f.err: a text that reads right on every
// rank.
func (f *failure) spell() {
	if gone := (*ipc.PeerError)(nil); errors.Is(f.err, ErrPeerLost) && errors.As(f.err, &gone) {
		at := ""
		if gone.Peer.Addr != "" {
			at = " at " + gone.Peer.Addr
		}
		f.err = fmt.Errorf("%w: process %d%s: %w", ErrPeerLost, gone.Peer.PID, at, gone.Err)
	}
	f.Code = codeOf(f.err)
	text, found := strings.CutPrefix(f.err.Error(), sentinelOf(f.Code).Error())
	if m := (*protocol.MismatchError)(nil); errors.As(f.err, &m) {
		text = ": " + m.Difference(fmt.Sprintf("rank %d", f.By))
	} else if !found {
		text = ": " + text
	}
	f.Text = text
}

// cause returns the error that f stands for.
func (f *failure) cause() error {
	if f.err != nil {
		return f.err
	}
	return fmt.Errorf("%w%s (says rank %d)", sentinelOf(f.Code), f.Text, f.By)
}
