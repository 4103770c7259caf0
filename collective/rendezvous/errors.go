package rendezvous

import "errors"

var (
	// ErrEnvironment is returned by Resolve for a variable that is missing or wrong. The
	// text has its name, its value and the expected one.
	ErrEnvironment = errors.New("rendezvous: environment")

	// ErrUnreachable is returned by Open when rank 0 did not answer, naming the address,
	// the time spent and the last reason.
	ErrUnreachable = errors.New("rendezvous: rank 0 is unreachable")

	// ErrDuplicateRank is returned by Open when another process is that rank already.
	ErrDuplicateRank = errors.New("rendezvous: duplicate rank")

	// ErrWorldSize is returned by Open when rank 0 and this rank differ on the number of
	// ranks.
	ErrWorldSize = errors.New("rendezvous: world sizes differ")

	// ErrStale is returned by Open when rank 0 is of another attempt (epoch) of the job.
	ErrStale = errors.New("rendezvous: other epoch")

	// ErrSecret is returned by Open when rank 0 and this rank don't know the same secret.
	ErrSecret = errors.New("rendezvous: secrets differ")

	// ErrProtocol is returned for bytes that are not of the protocol: another program
	// listens there, or they were damaged on the way.
	ErrProtocol = errors.New("rendezvous: bytes that were not expected")

	// ErrTooLarge is returned for a key or value above its limit.
	ErrTooLarge = errors.New("rendezvous: too large")

	// ErrMissing is returned by AllGather and Wait when the time is up: *MissingError for
	// AllGather, which names the missing ranks.
	ErrMissing = errors.New("rendezvous: missing")

	// ErrNotFound is returned by Get for a key that is not set.
	ErrNotFound = errors.New("rendezvous: no such key")

	// ErrFull is returned when the store holds as much as it may.
	ErrFull = errors.New("rendezvous: store is full")

	// ErrLost is returned for calls that were waiting when the connection to rank 0
	// ended.
	ErrLost = errors.New("rendezvous: connection to rank 0 lost")
)
