package worker

import "errors"

var (
	// ErrNameTaken is returned by Serve when another worker of the dispatcher has the name.
	ErrNameTaken = errors.New("worker: name taken")

	// ErrDispatcher is returned by Serve when the dispatcher is gone, stops, or broke the
	// protocol; it wraps what happened.
	ErrDispatcher = errors.New("worker: dispatcher gone")

	// ErrOption is returned by New for an option outside its range.
	ErrOption = errors.New("worker: bad option")
)

// errProtocol is a session's mistake that ends it.
var errProtocol = errors.New("protocol")
