package gather

import "sync"

// claims refuses a second download of a peer in a window. It remembers one window, the
// last. The zero value is empty.
type claims struct {
	mu     sync.Mutex
	window uint64
	taken  map[claim]bool
}

type claim struct {
	attempt uint32
	uid     uint64
}

// claim reports whether the peer was not claimed before.
func (c *claims) claim(window uint64, attempt uint32, uid uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.taken == nil || c.window != window {
		c.window, c.taken = window, map[claim]bool{}
	}
	k := claim{attempt, uid}
	if c.taken[k] {
		return false
	}
	c.taken[k] = true
	return true
}
