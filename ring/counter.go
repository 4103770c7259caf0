package ring

import "sync/atomic"

// Counter is a count that one goroutine keeps and any may read. Adding is a plain
// store, where an atomic addition is a fence: on the way of every message that costs
// more than the message.
type Counter struct{ n uint64 }

// Add is for one goroutine at a time.
func (c *Counter) Add(n uint64) { storeRelease(&c.n, c.n+n) }

// Load is for all.
func (c *Counter) Load() uint64 { return atomic.LoadUint64(&c.n) }
