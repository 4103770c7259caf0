package route

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
)

// maxAddrs bounds the addresses that one rank offers.
const maxAddrs = 16

// offers are the addresses at which others may find a listener at addr, the likeliest first: addr itself, or
// if that is every address of this host, all of those on interfaces that are up. Loopback comes last,
// for a host without a network; link-local ones are left out, for they need a zone that others name
// differently.
func offers(addr string) ([]string, error) {
	bound, err := netip.ParseAddrPort(addr)
	if err != nil {
		return nil, fmt.Errorf("route: listener's address %q: %w", addr, err)
	}
	if !bound.Addr().IsUnspecified() {
		return []string{addr}, nil
	}
	all, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("route: this host's addresses: %w", err)
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
	found = found[:min(len(found), maxAddrs)]
	var out []string
	for _, ip := range found {
		out = append(out, netip.AddrPortFrom(ip, bound.Port()).String())
	}
	if out == nil {
		return nil, fmt.Errorf("route: this host has no address to be reached at")
	}
	return out, nil
}

// worth orders addresses: IPv4 before IPv6, which is what is more often set up everywhere, and loopback last.
func worth(ip netip.Addr) int {
	switch {
	case ip.IsLoopback():
		return 0
	case ip.Is4():
		return 2
	}
	return 1
}
