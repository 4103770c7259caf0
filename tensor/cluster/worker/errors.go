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

// errTeam is that another worker of the session is gone or does not come: the session ends.
var errTeam = errors.New("the session's workers fell apart")

// ends says whether err costs its session.
func ends(err error) bool { return errors.Is(err, errProtocol) || errors.Is(err, errTeam) }
