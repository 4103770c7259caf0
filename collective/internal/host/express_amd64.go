//go:build amd64 && !race

package host

const hasExpress = true

// Goroutine says which goroutine calls: a number that no other has at the same time.
//
//go:noescape
func Goroutine() uintptr

// express is meetBrief of x, with word beside the mark, if the gate is open for this goroutine, there are no notices to be looked for, and
// the call stands in the page but for its number. It looks at least once whether the other is there. end: it ends the call too. In Go:
//
//	inside := &x.gate.Inside[x.gate.Opened]
//	if x.gate.Holder.Load() != Goroutine() || *inside != 0 { return 0, NotMade } // not 0: a call of this goroutine ended by a panic
//	*inside = 1
//	parity := (*x.epoch + 1) & 1
//	if x.gate.Holder.Load() != Goroutine() || *x.window == *x.epoch || x.said[parity] != x.call {
//		*inside = 0
//		if x.gate.Holder.Load() != Goroutine() { return 0, Turned }
//		return 0, NotMade
//	}
//	*x.epoch++
//	x.gate.Calls++
//	*x.calls++
//	seq := x.gate.Before.Load()/4 + x.gate.Calls
//	*x.seqs[parity] = seq
//	mark := *x.epoch<<32 | (x.word + seq*golden)>>32
//	theirs, here := trade(x.mine[parity], x.theirs[parity], mark, word, *x.spins) // with x.rest PAUSEs between looks
//	if !here { return 0, begunAlone }
//	if !end || *x.bell != ring.Awake { return theirs, Begun }
//	*inside = 0
//	if x.gate.Holder.Load() != Goroutine() { return theirs, Overdue }
//	return theirs, Made
//
//go:noescape
func express(x *Express, word uint64, end bool) (theirs uint64, got Outcome)

// leave stores 0 after all that was stored before it.
//
//go:noescape
func leave(inside *uint64)
