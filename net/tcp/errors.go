package tcp

import "errors"

var (
	// ErrSecret is returned by Dial when the two ends do not have the same secret: the listener
	// refused our proof (then it is also ipc.ErrRefused), or gave a wrong one itself.
	ErrSecret = errors.New("tcp: secrets differ")

	// errGivenUp is that the dialer of a second socket has given its conn up meanwhile.
	errGivenUp = errors.New("bulk socket of a conn that does not exist")

	// ErrAddress is returned by Dial and Listen for an address that is not host:port.
	ErrAddress = errors.New("tcp: not a host:port address")

	// ErrNotRingside is returned by Dial when something else listens there.
	ErrNotRingside = errors.New("tcp: the listener does not speak this protocol")
)
