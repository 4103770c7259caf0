package launch

import (
	"errors"
	"fmt"
)

var (
	// ErrOption is returned by Run for an option outside its range, and by ParseHosts.
	ErrOption = errors.New("launch: bad option")

	// ErrFailed is what a *RankError is.
	ErrFailed = errors.New("launch: rank failed")
)

// RankError says which rank ended first other than well, and how. It unwraps to ErrFailed.
type RankError struct {
	Rank int    `json:"rank"`
	Host string `json:"host"`
	Code int    `json:"exit_code"` // as shells have it: 128 and the signal's number if a signal ended it
	How  string `json:"how"`       // "exit status 3", "signal: killed"
}

func (e *RankError) Error() string {
	return fmt.Sprintf("%v: rank %d on %s: %s", ErrFailed, e.Rank, e.Host, e.How)
}

func (e *RankError) Unwrap() error { return ErrFailed }
