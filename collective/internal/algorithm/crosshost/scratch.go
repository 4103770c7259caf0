package crosshost

// scratch is memory that jobs work in. It grows to what the largest call so far needed.
type scratch struct {
	bytes []byte
	used  int
}

// reset forgets what was taken, and makes room for n bytes.
func (s *scratch) reset(n int) {
	s.used = 0
	if len(s.bytes) < n {
		s.bytes = make([]byte, n+n/2)
	}
}

// take returns n bytes that begin at a multiple of 64.
func (s *scratch) take(n int) []byte {
	b := s.bytes[s.used : s.used+n : s.used+n]
	s.used += (n + 63) &^ 63
	return b
}

// room returns the bytes that n takes of one length need.
func room(n, each int) int { return n * ((each + 63) &^ 63) }

// same reports whether a and b begin at the same byte: in place.
func same(a, b []byte) bool { return len(a) > 0 && len(b) > 0 && &a[0] == &b[0] }
