package tcp

import "errors"

var (
	// errGivenUp is that the dialer of a second socket has given its conn up meanwhile.
	errGivenUp = errors.New("bulk socket of a conn that does not exist")

	// ErrAddress is returned by Dial and Listen for an address that is not host:port.
	ErrAddress = errors.New("tcp: not a host:port address")
)
