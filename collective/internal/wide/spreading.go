package wide

import "github.com/ringside-go/ringside/collective/plan"

// spreading is the broadcast of a small buffer, or between two ranks: down a binomial
// tree, in as many steps as the logarithm of the ranks.
type spreading struct {
	c        *Comm
	buf      []byte
	parent   int
	children []int
}

func (s *spreading) sends(p int) int {
	for _, c := range s.children {
		if c == p {
			return 1
		}
	}
	return 0
}

func (s *spreading) recvs(p int) int { return one(p == s.parent) }

func (s *spreading) send(p, i int) ([]byte, bool) {
	return s.buf, s.parent < 0 || s.c.peers[s.parent].rcvd == 1
}

func (s *spreading) recv(p, i int) ([]byte, bool) { return s.buf, true }
func (s *spreading) work() bool                   { return false }

// relaying is the broadcast of a large buffer: the root sends each of the others another
// part, and they pass theirs on to each other chunk by chunk as it comes. No rank sends
// or receives more than the buffer once.
type relaying struct {
	c     *Comm
	buf   []byte
	root  int
	parts []plan.Slice // by rank, nothing for the root
}

func (r *relaying) count(p int) int              { return chunks(r.parts[p].Len, r.c.chunk) }
func (r *relaying) chunk(owner, k int) []byte    { return cut(r.parts[owner].Of(r.buf), k, r.c.chunk) }
func (r *relaying) recv(p, i int) ([]byte, bool) { return r.chunk(r.owner(p), i), true }
func (r *relaying) work() bool                   { return false }

// owner returns the rank whose part comes from rank p.
func (r *relaying) owner(p int) int {
	if p == r.root {
		return r.c.rank
	}
	return p
}

func (r *relaying) sends(p int) int {
	switch {
	case p == r.root:
		return 0
	case r.c.rank == r.root:
		return r.count(p)
	}
	return r.count(r.c.rank)
}

func (r *relaying) recvs(p int) int {
	if r.c.rank == r.root {
		return 0
	}
	return r.count(r.owner(p))
}

func (r *relaying) send(p, i int) ([]byte, bool) {
	if r.c.rank == r.root {
		return r.chunk(p, i), true
	}
	return r.chunk(r.c.rank, i), r.c.peers[r.root].rcvd > i
}

// meeting is the barrier: dissemination, plan.Rounds(n) steps of one empty piece each.
type meeting struct{ c *Comm }

// round returns the round in which distance d is bridged, -1 for none.
func (m meeting) round(d int) int {
	if d = (d + m.c.n) % m.c.n; d&(d-1) != 0 {
		return -1
	}
	r := 0
	for ; d > 1; d >>= 1 {
		r++
	}
	return r
}

func (m meeting) sends(p int) int { return one(m.round(p-m.c.rank) >= 0) }
func (m meeting) recvs(p int) int { return one(m.round(m.c.rank-p) >= 0) }

// send waits for the rounds before its own.
func (m meeting) send(p, i int) ([]byte, bool) {
	for r := range m.round(p - m.c.rank) {
		if m.c.peers[(m.c.rank-1<<r+m.c.n)%m.c.n].rcvd == 0 {
			return nil, false
		}
	}
	return nil, true
}

func (m meeting) recv(p, i int) ([]byte, bool) { return nil, true }
func (m meeting) work() bool                   { return false }
