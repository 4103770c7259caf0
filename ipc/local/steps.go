package local

import (
	"time"

	"github.com/ringside-go/ringside/ring"
	"github.com/ringside-go/ringside/shm"
)

// steps calls at with the name of each step of the protocol that this end takes, so that
// a test can end the process there. Outside of tests it is nil, and nothing is called.
// The steps of sending a message are not among them: a test calls those functions itself.
type steps struct{ at func(step string) }

func (s *steps) took(step string) {
	if s != nil {
		s.at(step)
	}
}

// futex is what bells sleep and wake by.
func (s *steps) futex() ring.Futex {
	f := ring.Futex{Wait: shm.FutexWait, Wake: shm.FutexWake, Barrier: shm.Barrier, Heed: shm.HeedBarriers}
	if s == nil {
		return f
	}
	f.Wait = func(word *uint32, val uint32, timeout time.Duration) error {
		s.took("park")
		err := shm.FutexWait(word, val, timeout)
		s.took("unpark")
		return err
	}
	f.Wake = func(word *uint32, n int) error {
		s.took("wake")
		err := shm.FutexWake(word, n)
		s.took("woken")
		return err
	}
	return f
}
