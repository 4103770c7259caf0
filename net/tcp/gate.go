package tcp

import "sync/atomic"

// Bits of a gate's state. The others count the users within.
const (
	gateClosed = 1 << 62
	gateEnded  = 1 << 61 // end was called
)

// gate guards a descriptor or memory that several goroutines use: it ends once the gate
// is closed and no user is within. Any goroutine may call any method.
type gate struct {
	state atomic.Int64
	end   func() // called once, by the last that leaves; set before the first enters
}

// enter reports whether the gate is open. If so, the caller calls leave when it is done.
func (g *gate) enter() bool {
	if g.state.Add(1)&gateClosed != 0 {
		g.leave()
		return false
	}
	return true
}

func (g *gate) leave() {
	// A goroutine that enters from now on sees that the gate is closed and leaves, so
	// that this would be reached again: the exchange lets only one through.
	if g.state.Add(-1) == gateClosed && g.state.CompareAndSwap(gateClosed, gateClosed|gateEnded) {
		g.end()
	}
}

// close is final; further calls do nothing.
func (g *gate) close() {
	if g.enter() {
		g.state.Or(gateClosed)
		g.leave()
	}
}
