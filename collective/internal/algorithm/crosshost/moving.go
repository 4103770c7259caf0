package crosshost

// moving is a job that only moves bytes: at most one piece to and one from each rank, all
// at once.
type moving struct {
	out, in  [][]byte // by rank
	to, from []bool   // whether there is a piece, be it empty
}

// reset prepares m for n ranks and no pieces.
func (m *moving) reset(n int) {
	if len(m.out) != n {
		m.out, m.in, m.to, m.from = make([][]byte, n), make([][]byte, n), make([]bool, n), make([]bool, n)
	}
	clear(m.out)
	clear(m.in)
	clear(m.to)
	clear(m.from)
}

// sendTo has b go to rank p.
func (m *moving) sendTo(p int, b []byte) { m.out[p], m.to[p] = b, true }

// recvFrom has the piece from rank p go to b.
func (m *moving) recvFrom(p int, b []byte) { m.in[p], m.from[p] = b, true }

// one returns 1 for true.
func one(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (m *moving) sends(p int) int              { return one(m.to[p]) }
func (m *moving) recvs(p int) int              { return one(m.from[p]) }
func (m *moving) send(p, i int) ([]byte, bool) { return m.out[p], true }
func (m *moving) recv(p, i int) ([]byte, bool) { return m.in[p], true }
func (m *moving) work() bool                   { return false }
