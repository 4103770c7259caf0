package tcp

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/ringside-go/ringside/ipc"
)

// maxAddrs bounds the addresses that ListenAny returns.
const maxAddrs = 16

// SharesMemory returns false: the ends may be on different hosts.
func (*Transport) SharesMemory() bool { return false }

// ListenAny opens a listener at a free port of the address or interface at.Bind.
func (t *Transport) ListenAny(at ipc.Place, o *ipc.Options) (ipc.Listener, []string, error) {
	host := at.Bind
	if i, err := net.InterfaceByName(host); err == nil {
		if addrs, err := i.Addrs(); err == nil && len(addrs) > 0 {
			host, _, _ = strings.Cut(addrs[0].String(), "/")
		}
	}
	if host == "" && (o == nil || len(o.Secret) == 0) {
		host = "127.0.0.1" // Listen takes no other without a secret
	}
	l, err := t.Listen(net.JoinHostPort(host, "0"), o)
	if err != nil {
		return nil, nil, err
	}
	addrs, err := offers(l.Addr())
	if err != nil {
		l.Close()
		return nil, nil, err
	}
	return l, addrs, nil
}

// offers returns the addresses at which others may find a listener at addr, the likeliest
// first: addr itself, or if that is every address of this host, all of those on
// interfaces that are up. Loopback comes last, for a host without a network. Link-local
// addresses are left out, because they need a zone that every host names differently.
func offers(addr string) ([]string, error) {
	bound, err := netip.ParseAddrPort(addr)
	if err != nil {
		return nil, fmt.Errorf("tcp: listener's address %q: %w", addr, err)
	}
	if !bound.Addr().IsUnspecified() {
		return []string{addr}, nil
	}
	all, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("tcp: this host's addresses: %w", err)
	}
	var found []netip.Addr
	for _, a := range all {
		p, err := netip.ParsePrefix(a.String())
		if err != nil {
			continue
		}
		ip := p.Addr().Unmap()
		if ip.IsLinkLocalUnicast() || ip.IsMulticast() || bound.Addr().Is4() && !ip.Is4() {
			continue
		}
		found = append(found, ip)
	}
	slices.SortStableFunc(found, func(a, b netip.Addr) int { return worth(b) - worth(a) })
	var out []string
	for _, ip := range found[:min(len(found), maxAddrs)] {
		out = append(out, netip.AddrPortFrom(ip, bound.Port()).String())
	}
	if out == nil {
		return nil, fmt.Errorf("tcp: this host has no address to be reached at")
	}
	return out, nil
}

// worth orders addresses: IPv4 before IPv6, which fewer networks have set up, and
// loopback last.
func worth(ip netip.Addr) int {
	switch {
	case ip.IsLoopback():
		return 0
	case ip.Is4():
		return 2
	}
	return 1
}
