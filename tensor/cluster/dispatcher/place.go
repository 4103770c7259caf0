package dispatcher

import (
	"cmp"
	"crypto/rand"
	"maps"
	"net"
	"slices"
	"strings"

	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
)

// place gives a waiting session to its workers; false when there are not enough. How they are chosen: see choose.
func (d *Dispatcher) place(s *session) bool {
	workers := d.choose(s.want)
	if workers == nil {
		return false
	}
	d.waiting = slices.DeleteFunc(d.waiting, func(x *session) bool { return x == s })
	d.stats.waiting.Add(-1)
	s.workers = workers
	open := wire.OpenSession{Session: s.id, Quota: s.quota, Workers: uint32(s.want), Config: s.config, Name: s.name}
	var names []string
	for _, w := range workers {
		names = append(names, w.who.Name)
	}
	apart := slices.ContainsFunc(workers, (*peer).far)
	if s.want > 1 && apart { // conns between hosts need a secret
		open.Key = secret()
	}
	s.direct = s.direct && !apart && !s.client.far()
	if len(workers) > 1 {
		s.turn = d.line.Join(s.id, workers)
	}
	token := secret() // another: what the client knows
	for r, w := range workers {
		w.sessions[s.id] = s
		open.Rank, open.Apart, open.Token = uint32(r), s.client.far() || w.far(), nil
		if open.Apart {
			open.Token = token
		}
		open.Direct = s.direct
		w.send(wire.KindOpenSession, wire.AppendOpenSession(nil, &open), s.id, nil)
	}
	d.log.Info("session placed", "session", s.id, "name", s.name, "workers", names, "client", s.client)
	return true
}

// choose takes as many workers as a session wants, nil if there are not so many: one is the one with the least to do. Several are
// those of one host if one has enough, this one before others, and otherwise of as few as can be, as many on each as on
// the others. By rank they are in the order of hosts, and of names within a host: so the workers of a host are neighbours along the
// last dim of a mesh, where most is said, and the same session lies alike each time.
func (d *Dispatcher) choose(want int) []*peer {
	hosts := map[string][]*peer{}
	have := 0
	for _, w := range d.workers {
		if !w.gone && w.conn.Err() == nil {
			hosts[w.host()] = append(hosts[w.host()], w)
			have++
		}
	}
	if have < want {
		return nil
	}
	var groups [][]*peer // each with the least to do first
	for _, name := range slices.Sorted(maps.Keys(hosts)) {
		slices.SortFunc(hosts[name], (*peer).compare)
		groups = append(groups, hosts[name])
	}
	if want == 1 {
		return []*peer{slices.MinFunc(slices.Concat(groups...), (*peer).compare)}
	}
	// Hosts that have enough are first, of those this one, and of others that with the least to do; then large ones.
	slices.SortStableFunc(groups, func(a, b []*peer) int {
		n := cmp.Or(cmp.Compare(min(len(b), want), min(len(a), want)), cmp.Compare(min(len(a[0].host()), 1), min(len(b[0].host()), 1)))
		if n == 0 && len(a) >= want {
			n = a[want-1].compare(b[want-1])
		}
		return n
	})
	enough, n := 0, 0
	for ; n < want; enough++ {
		n += len(groups[enough])
	}
	groups = groups[:enough]
	taken := make([]int, len(groups))
	for range want {
		least := -1
		for i := range groups {
			if taken[i] < len(groups[i]) && (least < 0 || taken[i] < taken[least]) {
				least = i
			}
		}
		taken[least]++
	}
	var workers []*peer
	for i, g := range groups {
		workers = append(workers, g[:taken[i]]...)
	}
	slices.SortFunc(workers, func(p, q *peer) int {
		return cmp.Or(strings.Compare(p.host(), q.host()), strings.Compare(p.who.Name, q.who.Name))
	})
	return workers
}

// compare orders workers by what they have to do; the name decides at last, so that the
// same history gives the same placement.
func (p *peer) compare(q *peer) int {
	return cmp.Or(cmp.Compare(len(p.sessions), len(q.sessions)), cmp.Compare(p.bytes, q.bytes), strings.Compare(p.who.Name, q.who.Name))
}

// host is where a peer is: nothing for this host, else the address that it is seen at.
func (p *peer) host() string {
	addr := p.conn.Peer().Addr
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return addr
	}
	return host
}

// secret is one that nobody guesses.
func secret() []byte {
	b := make([]byte, wire.MaxKey)
	rand.Read(b)
	return b
}
