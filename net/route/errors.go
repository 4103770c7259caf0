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

// noRoute returns ErrNoRoute for addrs. The text says which of them are hosts without a
// port, and which are a port alone.
func noRoute(addrs ...string) error {
	said := make([]string, len(addrs))
	for i, addr := range addrs {
		said[i] = strconv.Quote(addr)
		if _, err := strconv.ParseUint(addr, 10, 16); err == nil {
			said[i] += fmt.Sprintf(" has no host, expected HOST:%s if it is a port", addr)
		} else if host := withoutPort(addr); isHost(host) {
			said[i] += fmt.Sprintf(" has no port, expected %s if it is a host", net.JoinHostPort(host, "PORT"))
		}
	}
	return fmt.Errorf("%w: %s", ErrNoRoute, strings.Join(said, ", "))
}

// withoutPort returns the host of an addr that ends in an empty port, such as that of
// "127.0.0.1:", and any other addr as it is.
func withoutPort(addr string) string {
	if host, port, err := net.SplitHostPort(addr); err == nil && port == "" {
		return host
	}
	return addr
}

// isHost reports whether s may be a host's name or IP address, with no port. Digits alone
// are none.
func isHost(s string) bool {
	if _, err := netip.ParseAddr(s); err == nil {
		return true
	}
	return strings.Trim(s, "0123456789") != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return r > 'z' || !strings.ContainsRune("-._", r) && !unicode.IsLetter(r) && !unicode.IsDigit(r)
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
