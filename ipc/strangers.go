package ipc

import (
	"slices"
	"sync"
	"time"
)

// Strangers are the handshakes of a listener with peers that have proved nothing yet. It
// has room for a number of them. One more ends the oldest handshake of the origin that
// has the most: silent peers keep no other one out, and those of one origin end no
// handshake of another. Each has a least time, however many come. Without it those of one
// origin that come back at once would end each other's handshakes and those of proper
// peers. Any goroutine may call any method; one alone calls MakeRoom and Add.
type Strangers[C comparable] struct {
	most  int
	least time.Duration
	end   func(C)

	mu  sync.Mutex
	all []stranger[C] // oldest first
}

type stranger[C comparable] struct {
	conn  C
	from  any
	since time.Time
}

// NewStrangers returns a Strangers with room for most handshakes, of which each has at
// least a time. It calls end to end one, which must not wait.
func NewStrangers[C comparable](most int, least time.Duration, end func(C)) *Strangers[C] {
	return &Strangers[C]{most: most, least: least, end: end}
}

// MakeRoom ends a handshake if there are as many as may be. It returns false while that
// one has not had its least time; peers that come meanwhile wait.
func (s *Strangers[C]) MakeRoom() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.all) < s.most {
		return true
	}
	i := s.oldestOfMost()
	if time.Since(s.all[i].since) < s.least {
		return false
	}
	s.end(s.all[i].conn)
	s.all = slices.Delete(s.all, i, i+1)
	return true
}

// Add notes that a handshake begins, after MakeRoom. from is the peer's origin, such as
// its host, and is comparable.
func (s *Strangers[C]) Add(c C, from any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, stranger[C]{c, from, time.Now()})
}

// oldestOfMost returns the index of the oldest handshake of the origin that has the most.
func (s *Strangers[C]) oldestOfMost() int {
	count, most := map[any]int{}, 0
	for _, x := range s.all {
		count[x.from]++
		most = max(most, count[x.from])
	}
	return slices.IndexFunc(s.all, func(x stranger[C]) bool { return count[x.from] == most })
}

// Remove takes out a handshake that is over, or whose peer has proved what it must.
func (s *Strangers[C]) Remove(c C) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := s.index(c); i >= 0 {
		s.all = slices.Delete(s.all, i, i+1)
	}
}

// Goes calls do if the handshake has not been ended meanwhile, which it cannot be while
// do runs.
func (s *Strangers[C]) Goes(c C, do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.index(c) >= 0 {
		do()
	}
}

func (s *Strangers[C]) index(c C) int {
	return slices.IndexFunc(s.all, func(x stranger[C]) bool { return x.conn == c })
}

// Len returns the number of handshakes.
func (s *Strangers[C]) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.all)
}
