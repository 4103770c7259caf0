package tcp

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
)

// lowestPort is the lowest port that FreePort chooses: well-known services lie below.
const lowestPort = 20000

// FreePort returns a port of host that is free now, for a process that starts later. It
// chooses by chance below the ephemeral ports, which the kernel gives to every
// connection: one of those might be taken before that process listens.
func FreePort(host string) (int, error) {
	end := ephemeralPorts()
	for range 32 {
		if end <= lowestPort {
			break
		}
		l, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(lowestPort+rand.IntN(end-lowestPort))))
		if err == nil {
			defer l.Close()
			return l.Addr().(*net.TCPAddr).Port, nil
		}
	}
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return 0, fmt.Errorf("tcp: a free port: %w", err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// ephemeralPorts returns the first port of those that the kernel chooses by itself.
func ephemeralPorts() int {
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if f := bytes.Fields(text); err == nil && len(f) == 2 {
		if n, err := strconv.Atoi(string(f[0])); err == nil {
			return min(n, 1<<16)
		}
	}
	return 32768 // Linux's default
}
