package main

import (
	"fmt"
	"sync"
)

// handles are the objects that C holds by number. A number is used once, so a stale one
// is an error and never another object. Any goroutine may call the methods.
type handles struct {
	mu   sync.RWMutex
	last uint64
	all  map[uint64]any
}

// all are the objects that the process holds.
var all handles

// put stores x and returns its handle, which is not 0.
func (h *handles) put(x any) uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.all == nil {
		h.all = map[uint64]any{}
	}
	h.last++
	h.all[h.last] = x
	return h.last
}

// drop forgets a handle, and reports whether it was in use: of two threads that drop one,
// only one gets true.
func (h *handles) drop(handle uint64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, ok := h.all[handle]
	delete(h.all, handle)
	return ok
}

// get returns the object of a handle, which must be a T.
func get[T any](h *handles, handle uint64) (x T, err error) {
	h.mu.RLock()
	found, ok := h.all[handle]
	h.mu.RUnlock()
	if !ok {
		return x, fmt.Errorf("%w: %d, expected one that was returned and not closed", errHandle, handle)
	}
	if x, ok = found.(T); !ok {
		return x, fmt.Errorf("%w: %d is a %T, expected a %T", errHandle, handle, found, x)
	}
	return x, nil
}
