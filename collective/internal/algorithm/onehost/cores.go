package onehost

import "slices"

// # Ranks that share a core
//
// Each of more than two ranks says in its page on which core it runs. A rank that waits
// on a core which others need decides by that how to wait:
//
//   - A rank that it waits for was last seen on this core. That rank runs only when this
//     one gives the core away, so it does so at once.
//   - All of these are on other cores. No other rank of this core can do more than this
//     one, so it looks for somewhat longer than a switch takes. A rank that gives up
//     sooner has its neighbour run in vain, and is late itself.
//   - The root of the last broadcast waits on this core for the same meeting. The root
//     goes first: the others will wait for it if it gives again.
//
// The kernel may leave three ranks on one of two cores for long, since all of them ran a
// moment ago. A call then takes two switches. So the last of the three moves (settle).
// The effect is measured in docs/decisions.md.
const (
	// noCore is the core of a rank that does not know it.
	noCore = ^uint64(0)

	// settleEvery is the yields after which a waiting rank looks whether its core is
	// crowded. Each move doubles it, up to settleEvery<<settleSlower: the kernel may have
	// had a reason.
	settleEvery  = 64
	settleSlower = 14

	// farMicros is how long to look for ranks on other cores, in µs: more than a switch.
	farMicros = 2
)

// cores is what a rank knows of where ranks run.
type cores struct {
	mine   uint64 // what self.core says; noCore if unknown, or of no use among two ranks
	looks  int    // for ranks on other cores, while this core is shared
	yields uint64
	settle uint64 // the yields at which to look next whether this core is crowded
	moves  int
	all    []uint64 // room for the cores of all ranks
}

// newCores returns the cores of so many ranks; pauses is how many PAUSEs take a
// microsecond.
func newCores(ranks, pauses int) cores {
	s := cores{mine: noCore, settle: settleEvery}
	if ranks > 2 && hasCoreNow() {
		s.mine, s.looks, s.all = 0, farMicros*pauses, make([]uint64, ranks)
	}
	return s
}

// lessCrowded returns the core with the fewest ranks, if rank should move there: its own
// core has at least two more of them, and it is the last rank there. on holds the ranks'
// cores by rank, and is sorted.
func lessCrowded(on []uint64, rank int) (core uint64, ok bool) {
	mine := on[rank]
	if slices.Contains(on[rank+1:], mine) {
		return 0, false
	}
	slices.Sort(on)
	crowd, fewest := 0, len(on)
	for len(on) > 0 {
		n := 1
		for n < len(on) && on[n] == on[0] {
			n++
		}
		if on[0] == mine {
			crowd = n
		} else if n < fewest {
			core, fewest = on[0], n
		}
		on = on[n:]
	}
	return core, crowd >= fewest+2
}
