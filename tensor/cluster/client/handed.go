package client

import (
	"sync"
	"sync/atomic"
)

// handed is a list of what the engine's goroutine is to send with its next Run, oldest
// first. Any goroutine may add to it. While it is empty, as for most Runs, the engine
// takes no lock to see that.
type handed[T any] struct {
	some atomic.Bool // all has elements
	mu   sync.Mutex
	all  []T
}

// add adds to the list.
func (l *handed[T]) add(x ...T) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, x...)
	l.some.Store(len(l.all) > 0)
}

// first appends at most max of the oldest elements to dst.
func (l *handed[T]) first(dst []T, max int) []T {
	if !l.some.Load() {
		return dst
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return append(dst, l.all[:min(len(l.all), max)]...)
}

// drop removes the n oldest.
func (l *handed[T]) drop(n int) {
	if n == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	rest := copy(l.all, l.all[n:])
	clear(l.all[rest:])
	l.all = l.all[:rest]
	l.some.Store(rest > 0)
}
