package wide

// sending is the job of Send.
type sending struct {
	c     *Comm
	to    int
	buf   []byte
	asked bool
}

func (s *sending) sends(p int) int              { return one(p == s.to) }
func (s *sending) recvs(p int) int              { return 0 }
func (s *sending) send(p, i int) ([]byte, bool) { return s.buf, true }
func (s *sending) recv(p, i int) ([]byte, bool) { return nil, false }

func (s *sending) work() bool {
	if l := &s.c.peers[s.to]; l.sending && !s.asked {
		s.asked = true
		s.c.ask(s.to)
	}
	return false
}
