package launch

import (
	"errors"
	"fmt"
	"strings"
)

var (
	// ErrOption is returned by Run for an option outside its range, and by ParseHosts.
	ErrOption = errors.New("launch: bad option")

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
	s := fmt.Sprintf("%v: rank %d on %s: %s", ErrFailed, e.Rank, e.Host, e.How)
	if e.Because != nil {
		s += fmt.Sprintf(", because of rank %d: %s", e.Because.Rank, e.Because.Text)
	}
	if len(e.Also) > 0 {
		s += fmt.Sprintf("; before any was asked to end failed, too: %s", strings.Trim(strings.ReplaceAll(fmt.Sprint(e.Also), " ", ", "), "[]"))
	}
	return s
}

// Unwrap returns ErrFailed.
func (e *RankError) Unwrap() error { return ErrFailed }
