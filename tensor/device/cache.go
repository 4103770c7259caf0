package device

import (
	"cmp"
	"container/list"
	"fmt"
	"sync"

	"github.com/ringside-go/ringside/tensor"
)

// Cache keeps the compiled programs of a device, and drops the least recently used one
// when it is full. It compares whole encodings: two programs with one hash never answer
// for each other. All methods may be called concurrently.
type Cache[P any] struct {
	mu                    sync.Mutex
	max                   int       // programs
	bytes                 int       // of encodings
	order                 list.List // of *cached[P], most recent first
	byHash                map[tensor.Hash]*list.Element
	hits, misses, evicted uint64
}

type cached[P any] struct {
	encoded []byte
	program P
}

// maxCacheBytes bounds the encodings of the programs in a cache.
const maxCacheBytes = 16 << 20

// NewCache returns a cache of at most so many programs, 1024 if max is 0. Their encodings
// together are bounded by 16 MiB as well.
func NewCache[P any](max int) *Cache[P] {
	return &Cache[P]{max: cmp.Or(max, 1024), byHash: map[tensor.Hash]*list.Element{}}
}

// Get returns the compiled form of an encoded program, and whether the cache had it. If
// not, compile makes it. The errors are those of compile, and tensor.ErrProgram if
// encoded is malformed or has another hash.
func (c *Cache[P]) Get(hash tensor.Hash, encoded []byte, compile func(*tensor.Program) (P, error)) (p P, found bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.byHash[hash]; e != nil {
		if k := e.Value.(*cached[P]); string(k.encoded) == string(encoded) {
			c.hits++
			c.order.MoveToFront(e)
			return k.program, true, nil
		}
	}
	c.misses++
	if got := tensor.HashOf(encoded); got != hash {
		return p, false, fmt.Errorf("%w: its hash is %v, announced as %v", tensor.ErrProgram, got, hash)
	}
	prog, err := tensor.ParseProgram(encoded)
	if err != nil {
		return p, false, err
	}
	if p, err = compile(prog); err != nil {
		return p, false, err
	}
	if e := c.byHash[hash]; e != nil {
		c.drop(e)
	}
	c.byHash[hash] = c.order.PushFront(&cached[P]{append([]byte(nil), encoded...), p})
	for c.bytes += len(encoded); c.order.Len() > 1 && (c.order.Len() > c.max || c.bytes > maxCacheBytes); c.evicted++ {
		c.drop(c.order.Back())
	}
	return p, false, nil
}

func (c *Cache[P]) drop(e *list.Element) {
	k := c.order.Remove(e).(*cached[P])
	c.bytes -= len(k.encoded)
	delete(c.byHash, tensor.HashOf(k.encoded))
}

// Stats returns the counters of the cache, and zeros for all others.
func (c *Cache[P]) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return Stats{Hits: c.hits, Misses: c.misses, Evicted: c.evicted, Plans: c.order.Len(), PlanBytes: c.bytes}
}
