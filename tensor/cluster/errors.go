package cluster

import "errors"

var (
	// ErrOption is returned by Start for an option outside its range.
	ErrOption = errors.New("cluster: bad option")

	// ErrDied is returned by Start and Wait when a process of the cluster ended by
	// itself; the text names it, how it ended, and its last output.
	ErrDied = errors.New("cluster: process died")
)
