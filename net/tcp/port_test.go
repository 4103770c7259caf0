package tcp

import (
	"net"
	"strconv"
	"testing"
)

// TestFreePort: a chosen port can be listened at, is none that the kernel would give to a
// connection, and is another the next time.
func TestFreePort(t *testing.T) {
	seen := map[int]bool{}
	for range 8 {
		port, err := FreePort("127.0.0.1")
		if err != nil {
			t.Fatal(err)
		}
		if end := ephemeralPorts(); end > lowestPort && (port < lowestPort || port >= end) {
			t.Errorf("port %d, expected one of %d to %d", port, lowestPort, end-1)
		}
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		seen[port] = true
	}
	if len(seen) != 8 {
		t.Errorf("ports %v, expected 8 while all are taken", seen)
	}
	if _, err := FreePort("192.0.2.1"); err == nil {
		t.Error("a port of an address that this host does not have")
	}
}
