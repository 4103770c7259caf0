package launch

import (
	"errors"
	"fmt"
	"strings"
)

var (
	// ErrOption is returned by Run for an option outside its range, and by ParseHosts.
	ErrOption = errors.New("launch: bad option")

	// ErrThreads is returned by Run where limits of the user or of the control group
	// leave too few threads for the ranks of this host.
	ErrThreads = errors.New("launch: too few threads")

	// ErrFailed is what a *RankError is.
	ErrFailed = errors.New("launch: rank failed")
)

// RankError names the rank whose failure ended the others, as well as it is known, and
// the way it ended. It unwraps to ErrFailed.
type RankError struct {
	Rank int    `json:"rank"`
	Host string `json:"host"`
	Code int    `json:"exit_code"` // as in a shell: 128 plus the signal's number
	How  string `json:"how"`       // "exit status 3", "signal: killed"

	// Said is the last line that a rank of this host wrote to its standard error about
	// the failure of its group. SaidBy are the ranks that wrote such lines about the same
	// failure; the text is that of the first one. Run does not pass these lines on.
	Said   string `json:"said,omitempty"`
	SaidBy []int  `json:"said_by,omitempty"`

	// Because is the rank that it names as the reason, if that rank had not failed itself
	// when the others were ended.
	Because *Because `json:"because,omitempty"`

	// Also are other ranks that had failed by then, of which each may be the one that
	// began it.
	Also []int `json:"also_failed,omitempty"`
}

// Because is why a rank failed that did so because of another.
type Because struct {
	Rank int    `json:"rank"`
	Text string `json:"text"` // what happened to it
}

// Error says which rank failed first and how.
func (e *RankError) Error() string {
	said := e.Said
	if len(e.SaidBy) > 1 { // the ranks that said it are named in the end
		for _, r := range e.SaidBy {
			said = strings.ReplaceAll(said, fmt.Sprintf(" (says rank %d)", r), "")
		}
	}
	s := fmt.Sprintf("%v: rank %d on %s: %s", ErrFailed, e.Rank, e.Host, e.How)
	if e.Because != nil {
		s += fmt.Sprintf(", because of rank %d", e.Because.Rank)
	}
	switch {
	case len(e.SaidBy) == 0 && e.Because != nil:
		s += ": " + e.Because.Text
	case len(e.SaidBy) == 0:
	case e.SaidBy[0] == e.Rank:
		s += ": " + said
	default:
		s += fmt.Sprintf("; rank %d: %s", e.SaidBy[0], said)
	}
	if len(e.SaidBy) > 1 {
		s += " (the same from rank " + list(e.SaidBy[1:]) + ")"
	}
	if len(e.Also) > 0 {
		s += "; before any was asked to end failed, too: " + list(e.Also)
	}
	return s
}

// list writes ranks with commas.
func list(ranks []int) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(ranks), " ", ", "), "[]")
}

// Unwrap returns ErrFailed.
func (e *RankError) Unwrap() error { return ErrFailed }
