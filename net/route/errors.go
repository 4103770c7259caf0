package route

import (
	"errors"
	"fmt"
)

var (
	// ErrNoRoute is returned by Dial and Listen for an address that no transport reaches.
	ErrNoRoute = errors.New("route: no transport reaches this address")

	// ErrMesh is returned by Mesh when the ranks could not be connected; the text names
	// ranks and addresses.
	ErrMesh = errors.New("route: ranks not connected")

	// ErrPair is returned by Pair when two ends could not be connected; the text names
	// them and the addresses.
	ErrPair = errors.New("route: two ends not connected")
)

// RankError says which rank an error of Mesh is about. It unwraps to Err.
type RankError struct {
	Rank int
	Addr string // what was tried, where known
	Err  error
}

// Error names the rank and its address.
func (e *RankError) Error() string {
	at := ""
	if e.Addr != "" {
		at = " at " + e.Addr
	}
	return fmt.Sprintf("rank %d%s: %v", e.Rank, at, e.Err)
}

// Unwrap returns Err.
func (e *RankError) Unwrap() error { return e.Err }
