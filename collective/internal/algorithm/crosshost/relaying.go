package crosshost

import "github.com/ringside-go/ringside/collective/protocol"

// relaying is the broadcast of a large buffer: the root sends each of the others another
// part, and they pass theirs on to each other chunk by chunk as it comes. No rank sends
// or receives more than the buffer once. Its methods are those of job.
type relaying struct {
	c     *Comm
	buf   []byte
	root  int
	parts []protocol.Slice // by rank, nothing for the root
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
