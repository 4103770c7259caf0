package cuda

import (
	"maps"
	"sync"
	"time"

	"github.com/ringside-go/ringside/tensor/device"
	"github.com/ringside-go/ringside/tensor/internal/compile"
)

// Counters are what a device did so far.
type Counters struct {
	Launches  uint64            // of kernels, but for those in graphs
	Products  uint64            // by a library: launched, or captured in graphs
	Captures  uint64            // of graphs
	Replays   uint64            // launches of graphs
	HostSteps map[string]uint64 // that ran on the host, by operation and dtype
	Up, Down  uint64            // bytes copied to the device and from it
	Kernels   uint64            // that the driver has loaded
	Loading   time.Duration     // what the driver took for that: it compiles their PTX

	// Spare is how many bytes of the device sessions have freed and keep for their next
	// values now. Another session that needs them gets them.
	Spare int64
}

// counters are a device's Counters.
type counters struct {
	mu sync.Mutex
	c  Counters
}

// get returns a copy.
func (n *counters) get() Counters {
	n.mu.Lock()
	defer n.mu.Unlock()
	c := n.c
	c.HostSteps = maps.Clone(c.HostSteps)
	return c
}

// work returns the counters that every device has.
func (n *counters) work() device.Work {
	n.mu.Lock()
	defer n.mu.Unlock()
	w := device.Work{Launches: n.c.Launches, Captures: n.c.Captures, Replays: n.c.Replays, Up: n.c.Up, Down: n.c.Down}
	for _, k := range n.c.HostSteps {
		w.HostSteps += k
	}
	return w
}

// add adds what one call did.
func (n *counters) add(c *Counters) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.c.Launches += c.Launches
	n.c.Products += c.Products
	n.c.Captures += c.Captures
	n.c.Replays += c.Replays
	n.c.Up += c.Up
	n.c.Down += c.Down
	n.c.Kernels += c.Kernels
	n.c.Loading += c.Loading
	if n.c.HostSteps == nil {
		n.c.HostSteps = map[string]uint64{}
	}
	for name, k := range c.HostSteps {
		n.c.HostSteps[name] += k
	}
}

// nameOf returns the name under which a step is counted.
func nameOf(s *compile.Step) string {
	name := s.Fused.String()
	if s.Fused == compile.Single {
		name = s.Op.String()
	}
	return name + " " + s.Out.DType.String()
}
