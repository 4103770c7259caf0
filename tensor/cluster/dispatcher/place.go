package dispatcher

import (
	"cmp"
	"crypto/rand"
	"maps"
	"net"
	"slices"
	"strings"

	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
	"github.com/ringside-go/ringside/tensor/device"
)

// place places a waiting session on its workers. It returns false when there are not
// enough.
func (d *Dispatcher) place(s *session) bool {
	workers := choose(d.candidates(s), s.want)
	if workers == nil {
		return false
	}
	d.waiting = slices.DeleteFunc(d.waiting, func(x *session) bool { return x == s })
	d.stats.waiting.Add(-1)
	s.workers = workers
	open := wire.OpenSession{Session: s.id, Quota: s.quota, Kind: uint8(s.kind), Mixed: s.mixed, Workers: uint32(s.want), Config: s.config, Name: s.name}
	open.Flops, open.Bandwidth = slowest(workers)
	var names []string
	for _, w := range workers {
		names = append(names, w.who.Name)
	}
	apart := slices.ContainsFunc(workers, (*peer).far)
	if s.want > 1 && apart { // connections between hosts need a secret
		open.Key = secret()
	}
	s.direct = s.direct && !apart && !s.client.far()
	if len(workers) > 1 {
		s.turn = d.line.Join(s.id, workers)
	}
	token := secret() // another one, which the client knows
	for r, w := range workers {
		w.sessions[s.id] = s
		open.Rank, open.Apart, open.Token = uint32(r), s.client.far() || w.far(), nil
		if open.Apart || s.direct && s.want == 1 {
			open.Token = token
		}
		open.Direct = s.direct
		w.send(wire.KindOpenSession, wire.Append(nil, &open), s.id, nil)
	}
	d.silence.ask(s)
	d.log.Info("session placed", "session", s.id, "name", s.name, "workers", names, "client", s.client)
	return true
}

// candidates returns the workers that s may have: all of one kind, unless s takes
// several. Where s names no kind, they are of the fastest kind that has enough workers,
// or else of the one that has the most.
func (d *Dispatcher) candidates(s *session) []*peer {
	kinds := map[device.Kind][]*peer{}
	for _, w := range d.workers {
		if w.gone || w.silent || w.device == nil || w.conn.Err() != nil {
			continue
		}
		kind := w.device.Info.Kind
		if s.mixed {
			kind = 0
		}
		kinds[kind] = append(kinds[kind], w)
	}
	if s.kind != 0 {
		return kinds[s.kind]
	}
	var best []*peer
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		if best == nil || fitter(kinds[kind], best, s.want) {
			best = kinds[kind]
		}
	}
	return best
}

// fitter reports whether the workers a are a better choice than b for a session of want.
func fitter(a, b []*peer, want int) bool {
	n := cmp.Compare(min(len(a), want), min(len(b), want))
	return cmp.Or(n, cmp.Compare(speed(a), speed(b))) > 0
}

// speed returns the speed of the fastest of some workers; 0: not known.
func speed(workers []*peer) (flops float64) {
	for _, w := range workers {
		flops = max(flops, w.device.Info.Flops)
	}
	return flops
}

// slowest returns the least speed of the devices of some workers; 0 where the speed of
// one is not known.
func slowest(workers []*peer) (flops, bandwidth float64) {
	flops, bandwidth = workers[0].device.Info.Flops, workers[0].device.Info.Bandwidth
	for _, w := range workers {
		flops, bandwidth = min(flops, w.device.Info.Flops), min(bandwidth, w.device.Info.Bandwidth)
	}
	return flops, bandwidth
}

// choose returns want of the workers, nil if there are not enough. One worker is the
// first in the order of compare. Several are of one host if one has enough, this host
// before others, and otherwise of as few hosts as possible, as many on each as on the
// others. They are ordered by host and by name within a host: so the workers of a host
// are neighbours along the last dim of a mesh, which has the most communication, and the
// same session lies alike each time.
func choose(workers []*peer, want int) []*peer {
	if len(workers) < want {
		return nil
	}
	hosts := map[string][]*peer{}
	for _, w := range workers {
		hosts[w.host()] = append(hosts[w.host()], w)
	}
	var groups [][]*peer // each in the order of compare
	for _, name := range slices.Sorted(maps.Keys(hosts)) {
		slices.SortFunc(hosts[name], (*peer).compare)
		groups = append(groups, hosts[name])
	}
	if want == 1 {
		return []*peer{slices.MinFunc(slices.Concat(groups...), (*peer).compare)}
	}
	// Hosts that have enough workers are first: this host, then by the order of compare.
	// Then come the others, large ones first.
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
	var chosen []*peer
	for i := 0; len(chosen) < want; i++ { // one more of each host that has one
		for _, g := range groups[:enough] {
			if i < len(g) && len(chosen) < want {
				chosen = append(chosen, g[i])
			}
		}
	}
	slices.SortFunc(chosen, func(p, q *peer) int {
		return cmp.Or(strings.Compare(p.host(), q.host()), strings.Compare(p.who.Name, q.who.Name))
	})
	return chosen
}

// compare orders workers for the next session: those first that no program keeps busy,
// then the one with the most free memory, where both have told theirs, then the one with
// the fewest sessions for its speed, then the one that was sent the fewest bytes. The
// name decides last, so that the same history gives the same placement.
func (p *peer) compare(q *peer) int {
	busy, free := 0, 0
	if p.busy() != q.busy() {
		busy = 1
		if q.busy() {
			busy = -1
		}
	}
	if a, b := p.device, q.device; a.Info.Bytes > 0 && b.Info.Bytes > 0 {
		free = cmp.Compare(b.Info.Bytes-min(b.Used, b.Info.Bytes), a.Info.Bytes-min(a.Used, a.Info.Bytes))
	}
	return cmp.Or(busy, free, cmp.Compare(p.load(), q.load()), cmp.Compare(p.bytes, q.bytes), strings.Compare(p.who.Name, q.who.Name))
}

// load returns how many sessions a worker would have with another one, for each 10
// TFLOP/s of its device. A device whose speed is not known counts as one of that speed.
func (p *peer) load() float64 {
	n := float64(len(p.sessions) + 1)
	if f := p.device.Info.Flops; f > 0 {
		n *= 1e13 / f
	}
	return n
}

// host returns the address of the peer's host; empty for this host.
func (p *peer) host() string {
	addr := p.conn.Peer().Addr
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return addr
	}
	return host
}

// secret returns random bytes.
func secret() []byte {
	b := make([]byte, wire.MaxKey)
	rand.Read(b)
	return b
}
