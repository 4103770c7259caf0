package ring

import (
	"fmt"
	"strings"
	"testing"
)

// explorer walks all paths, depth first, and each state once.
type explorer struct {
	model model
	paths map[modelState]float64 // from here to the end; -1 while on the current path
	wrong string
	trail []string
}

// walk returns the number of paths from s on, and stops at the first that is wrong.
func (x *explorer) walk(s modelState) float64 {
	if n, ok := x.paths[s]; ok {
		if n < 0 {
			x.wrong = "came back to where it was"
		}
		return n
	}
	x.paths[s] = -1
	total, moved := 0.0, false
	try := func(name string, t modelState, wrong string) {
		if x.wrong != "" {
			return
		}
		moved = true
		x.trail = append(x.trail, name)
		if x.wrong = wrong; wrong == "" {
			total += x.walk(t)
		}
		if x.wrong == "" {
			x.trail = x.trail[:len(x.trail)-1]
		}
	}
	if t := s; !s.asleep[producerSide] && x.model.produce(&t) {
		try(fmt.Sprint("p", s.p.step), t, "")
	}
	if t := s; !s.asleep[consumerSide] {
		if ok, wrong := x.model.consume(&t); ok {
			try(fmt.Sprint("c", s.c.step), t, wrong)
		}
	}
	for side, name := range [2]string{"p drains", "c drains"} {
		if t := s; t.drain(side) {
			try(name, t, "")
		}
	}
	if !moved {
		if s.p.step != pDone || s.c.step != cDone {
			x.wrong = fmt.Sprintf("nobody can move, producer at step %d, consumer at %d", s.p.step, s.c.step)
		}
		total = 1
	}
	x.paths[s] = total
	return total
}

func explore(b bug, script modelScript) (states int, paths float64, wrong string, trail []string) {
	x := explorer{model: model{b, script}, paths: make(map[modelState]float64)}
	paths = x.walk(modelState{})
	return len(x.paths), paths, x.wrong, x.trail
}

func TestEveryInterleaving(t *testing.T) {
	for _, script := range modelScripts {
		states, paths, wrong, trail := explore(noBug, script)
		if wrong != "" {
			t.Errorf("bodies of %v words, batches of %d, barrier %t: %s\nafter %s", script.lengths, script.batch, script.barrier, wrong, strings.Join(trail, ", "))
			continue
		}
		t.Logf("bodies of %v words, batches of %d, barrier %t: %d states, %.4g interleavings",
			script.lengths, script.batch, script.barrier, states, paths)
	}
}

// TestExplorerFindsBugs is the test of the test: with each of these mistakes some
// interleaving of some script goes wrong.
func TestExplorerFindsBugs(t *testing.T) {
	for _, b := range allBugs {
		found := false
		for _, script := range modelScripts {
			states, _, wrong, trail := explore(b, script)
			if wrong != "" {
				found = true
				if len(wrong) > 60 {
					wrong = wrong[:60] + "…"
				}
				t.Logf("%s: found after %d states, at step %d: %s", b, states, len(trail), wrong)
				break
			}
		}
		if !found {
			t.Errorf("not found: %s", b)
		}
	}
}
