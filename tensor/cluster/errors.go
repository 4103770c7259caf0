package cluster

import "errors"

var (
	// ErrOption is returned by Start for an option outside its range.
	ErrOption = errors.New("cluster: bad option")

	// ErrThreads is returned by Start where limits of the user or of the control group
	// leave too few threads for the processes of the cluster.
	ErrThreads = errors.New("cluster: too few threads")

	// ErrSpace is returned by Start where the limit of address space, which processes
	// inherit, leaves those of the cluster too little to begin.
	ErrSpace = errors.New("cluster: its processes can't begin")

	// ErrNotReady is returned by Start when a process of the cluster lives but does not
	// connect; the text names it and says what to look at.
	ErrNotReady = errors.New("cluster: not ready")

	// ErrDied is returned by Start and Wait when a process of the cluster ended by
	// itself; the text names it, how it ended, and its last output.
	ErrDied = errors.New("cluster: process died")
)
