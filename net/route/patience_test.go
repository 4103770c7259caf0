package route

import "testing"

// TestPatience wants attempts on this host to have more time the more ranks meet, and an
// attempt at another host as much as ever.
func TestPatience(t *testing.T) {
	for ranks, want := range map[int]float64{0: 3, 2: 3.2, 64: 9.4, 192: 22.2} {
		p := place{ranks: ranks}
		if near, far := p.patience(true).Seconds(), p.patience(false); near != want || far != attemptTimeout {
			t.Errorf("%d ranks: %v s here, %v elsewhere, expected %v s and %v", ranks, near, far, want, attemptTimeout)
		}
	}
}
