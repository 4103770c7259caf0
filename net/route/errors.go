package route

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"unicode"
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

// noRoute is ErrNoRoute for addrs. It says which of them are hosts without a port.
func noRoute(addrs ...string) error {
	said := make([]string, len(addrs))
	for i, addr := range addrs {
		said[i] = strconv.Quote(addr)
		if isHost(addr) {
			said[i] += fmt.Sprintf(" has no port, expected %s if it is a host", net.JoinHostPort(addr, "PORT"))
		}
	}
	return fmt.Errorf("%w: %s", ErrNoRoute, strings.Join(said, ", "))
}

// isHost reports whether addr may be a host's name or IP address, with no port.
func isHost(addr string) bool {
	if _, err := netip.ParseAddr(addr); err == nil {
		return true
	}
	return addr != "" && !strings.ContainsFunc(addr, func(r rune) bool {
		return r > 'z' || !strings.ContainsRune("-.", r) && !unicode.IsLetter(r) && !unicode.IsDigit(r)
	})
}

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
