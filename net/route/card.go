package route

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"

	"github.com/ringside-go/ringside/ipc"
)

const (
	maxCard  = 4 << 10 // bytes that a rank says in one exchange
	maxWhy   = 2 << 10 // of these, why it could not reach others
	maxAddrs = 64      // addresses of a rank
)

// card is what a rank says of itself to all others.
type card struct {
	Label  string  `json:",omitempty"` // MeshOptions.Name
	Name   string  // that its host gives itself, for people
	Host   string  `json:",omitempty"` // MeshOptions.Host
	PID    int     // in its own namespace
	Nonce  string  // names it in meetings
	Offers []offer // its addresses, by transport
}

// offer is the addresses at which a rank listens with one transport, the likeliest first.
type offer struct {
	Transport string
	Near      bool `json:",omitempty"` // the transport shares memory
	Addrs     []string
}

func hostName() string {
	name, err := os.Hostname()
	if err != nil || len(name) > 100 {
		return "host"
	}
	return name
}

// check checks what another rank said.
func (c *card) check(int) error {
	addrs := c.addrs()
	switch {
	case len(addrs) == 0 || len(addrs) > maxAddrs:
		return fmt.Errorf("%d addresses, expected 1 to %d", len(addrs), maxAddrs)
	case c.Nonce == "" || len(c.Nonce) > maxNonce:
		return fmt.Errorf("nonce %q, expected 1 to %d bytes", c.Nonce, maxNonce)
	case len(c.Label) > maxName:
		return fmt.Errorf("a name of %d bytes, expected at most %d", len(c.Label), maxName)
	}
	for _, addr := range addrs {
		// A name would have this process ask a name server on another's behalf.
		if host, _, err := net.SplitHostPort(addr); err == nil {
			if _, err := netip.ParseAddr(host); err != nil {
				return fmt.Errorf("address %.100q: expected an IP address, not a name", addr)
			}
		}
	}
	return nil
}

// addrs returns all addresses. The i-th is called i+1 in reports and meetings.
func (c *card) addrs() (all []string) {
	for _, o := range c.Offers {
		all = append(all, o.Addrs...)
	}
	return all
}

// at returns the addresses at which t may reach the rank from the host called host, by
// their numbers.
func (c *card) at(t ipc.Transport, host string) map[int]string {
	found, via := map[int]string{}, 0
	for _, o := range c.Offers {
		for _, addr := range o.Addrs {
			via++
			if o.Transport == t.Name() && t.Reaches(addr) && (!t.SharesMemory() || c.Host == host) {
				found[via] = addr
			}
		}
	}
	return found
}

// addr returns the address with the number via, or the first one if via is 0.
func (c *card) addr(via int) string { return c.addrs()[max(via-1, 0)] }

// near reports whether the address with the number via is one of shared memory.
func (c *card) near(via int) bool {
	for _, o := range c.Offers {
		if via <= len(o.Addrs) {
			return o.Near
		}
		via -= len(o.Addrs)
	}
	return false
}

// reaches reports whether other hosts may reach the rank.
func (c *card) reaches() bool {
	return slices.ContainsFunc(c.Offers, func(o offer) bool { return !o.Near && len(o.Addrs) > 0 })
}

// report is what a rank says after it has dialed others.
type report struct {
	// Reached holds ranks from the first number to before the second, each reached at its
	// address with the third number.
	Reached [][3]int `json:",omitempty"`

	// Why is the reason why others could not be reached.
	Why string `json:",omitempty"`
}

// add adds a rank, higher than those before.
func (r *report) add(rank, via int) {
	if last := len(r.Reached) - 1; last >= 0 && r.Reached[last][1] == rank && r.Reached[last][2] == via {
		r.Reached[last][1]++
		return
	}
	r.Reached = append(r.Reached, [3]int{rank, rank + 1, via})
}

// check checks what another rank said: that it reached only ranks that it was to dial.
func (r *report) check(from int, cards []card, dials func(from, to int) bool) error {
	next := 0
	for _, span := range r.Reached {
		if span[0] < next || span[0] >= span[1] || span[1] > len(cards) {
			return fmt.Errorf("reached the ranks from %d to before %d, expected ascending ones below %d", span[0], span[1], len(cards))
		}
		for to := span[0]; to < span[1]; to++ {
			if !dials(from, to) || span[2] < 1 || span[2] > len(cards[to].addrs()) {
				return fmt.Errorf("reached rank %d at address %d, which it was not to dial", to, span[2])
			}
		}
		next = span[1]
	}
	return nil
}

// reached returns by rank at which address it was reached, 0 for not.
func (r *report) reached(size int) []int {
	via := make([]int, size)
	for _, span := range r.Reached {
		for to := span[0]; to < span[1]; to++ {
			via[to] = span[2]
		}
	}
	return via
}

// group returns for every rank the lowest rank of its host; near[r] are the lower ranks
// that r shares memory with. All ranks compute it from the same numbers. A rank joins the
// first host with whose every rank it shares memory.
func group(near [][]int) []int {
	hosts := make([]int, len(near))
	members := map[int]int{} // by lowest rank: how many so far
	for r := range near {
		shared := map[int]int{} // of those, with how many r shares memory
		for _, to := range near[r] {
			shared[hosts[to]]++
		}
		hosts[r] = r
		for host, n := range shared {
			if n == members[host] && host < hosts[r] {
				hosts[r] = host
			}
		}
		members[hosts[r]]++
	}
	return hosts
}

// swap exchanges a value as JSON, and checks those of the others.
func swap[T any](ctx context.Context, o *MeshOptions, mine *T, check func(theirs *T, from int) error) ([]T, error) {
	src, err := json.Marshal(mine)
	if err != nil {
		return nil, fmt.Errorf("route: %w", err)
	}
	if len(src) > maxCard {
		return nil, fmt.Errorf("route: this rank has %d bytes to say, at most %d", len(src), maxCard)
	}
	all, err := o.Exchange(ctx, src)
	if err != nil {
		return nil, fmt.Errorf("exchange: %w", err)
	}
	if len(all) != o.Size {
		return nil, fmt.Errorf("exchange: values of %d ranks, expected %d", len(all), o.Size)
	}
	values := make([]T, o.Size)
	for r, src := range all {
		if len(src) > maxCard {
			return nil, &RankError{Rank: r, Err: fmt.Errorf("it said %d bytes, at most %d", len(src), maxCard)}
		}
		err := json.Unmarshal(src, &values[r])
		if err == nil {
			err = check(&values[r], r)
		}
		if err != nil {
			return nil, &RankError{Rank: r, Err: fmt.Errorf("it said %.200q: %w", src, err)}
		}
	}
	return values, nil
}
