package trace

import (
	"fmt"
	"math"
	"time"

	"github.com/ringside-go/ringside/collective"
	"github.com/ringside-go/ringside/collective/protocol"
)

// clock compares the clock of a host with that of the first rank's host, for which it is
// the zero value. Times are nanoseconds.
type clock struct {
	ahead     int64
	precision int64 // ahead is right to that; negative where it is not known
}

// call names a call of all ranks.
type call struct{ attempt, seq uint64 }

// stay is when the ranks of a host were in a call: the last began, the first ended.
type stay struct{ began, ended int64 }

// clocksOf returns the clocks of hosts by name. No barrier and no all-reduce of all ranks
// ends on one rank before it has begun on every other. Each such call so bounds from both
// sides how much a clock is ahead; it is taken to be in the middle of what all calls
// leave. Clocks that drift apart may leave nothing: then it is in the middle of the
// bounds that contradict each other most.
func clocksOf(ranks []*collective.RankEvents) map[string]clock {
	spans := map[string]map[call]stay{}
	for _, r := range ranks {
		if spans[r.Host] == nil {
			spans[r.Host] = map[call]stay{}
		}
		for i := range r.Events {
			e := &r.Events[i]
			if !bindsAll(e, r) {
				continue
			}
			at := call{r.Attempt, e.Call.Seq}
			s, ok := spans[r.Host][at]
			if !ok {
				s = stay{math.MinInt64, math.MaxInt64}
			}
			spans[r.Host][at] = stay{max(s.began, e.Began), min(s.ended, e.Began+e.Took)}
		}
	}
	clocks := map[string]clock{}
	if len(spans) < 2 {
		return clocks
	}
	first := spans[ranks[0].Host]
	for host, own := range spans {
		if host == ranks[0].Host {
			continue
		}
		least, most, found := int64(math.MinInt64), int64(math.MaxInt64), false
		for at, s := range own {
			if f, ok := first[at]; ok {
				least, most, found = max(least, s.began-f.ended), min(most, s.ended-f.began), true
			}
		}
		if !found {
			clocks[host] = clock{precision: -1}
			continue
		}
		clocks[host] = clock{least + (most-least)/2, max(most-least, least-most)/2 + 1}
	}
	return clocks
}

// bindsAll reports whether e, an event of r, is a call of all ranks that none leaves
// before all have come.
func bindsAll(e *collective.Event, r *collective.RankEvents) bool {
	if e.Tagged || e.Failed || r.Groups[e.Group].Size != r.Size || e.Group != 0 {
		return false
	}
	return e.Call.Kind == protocol.Barrier || e.Call.Kind == protocol.AllReduce && e.Call.Count > 0
}

// entry returns the instant that says how a rank's clock was set.
func (c clock) entry(at int64, process int) *entry {
	if c.precision < 0 {
		return &entry{name: "clock not set: no call of all ranks", cat: "clock", phase: 'i', at: at, process: process, thread: 1}
	}
	return &entry{name: fmt.Sprintf("clock set by calls, to %v", time.Duration(c.precision).Round(time.Microsecond)), cat: "clock", phase: 'i',
		at: at, process: process, thread: 1, args: []arg{{key: "precision_ns", n: uint64(c.precision)}}}
}
