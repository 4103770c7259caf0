package bench

import "slices"

// nearBarrier separates the placements of nearNS by what a barrier of two processes
// takes, in µs: 0.04 to 0.1 where the cores are near, 0.16 to
// 0.35 where they are far, on every side that meets by stores.
const nearBarrier = 0.14

// placement has sides of two ranks measured while their cores are near. A hypervisor
// places two processes anew when they start, and so again for every side of a round: what
// one side took near and the other far are not to be compared.
type placement struct {
	off       bool // nothing is to be chosen
	again     int  // how many times a side is measured once more
	near, far int  // sides of the round under way
}

// mixed says whether some sides of the round were near and others far, or on the way.
func (p *placement) mixed() bool { return p.near > 0 && p.far > 0 }

// run is s.run. A barrier before the cases and one behind them say where the cores were.
func (p *placement) run(s collectiveSide, ranks int, cases []collectiveCase) []outcome {
	if p.off || ranks != 2 || !slices.Contains([]string{sideFloor, sideOurs, sidePersistent}, s.name) {
		return s.run(ranks, cases)
	}
	probe := []collectiveCase{{ranks, "barrier", "f32", 0, false}}
	for again := p.again; ; again-- {
		got := s.run(ranks, slices.Concat(probe, cases, probe))
		if len(got) != len(cases)+2 {
			return got
		}
		last := len(got) - 1
		switch {
		case got[0].micros < nearBarrier && got[last].micros < nearBarrier:
			p.near++
		case again == 0:
			p.far++
		default:
			continue
		}
		return got[1:last]
	}
}
