package shm

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"
)

func TestFutex(t *testing.T) {
	s, err := Create(4096, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	peer, err := FromFile(s.ID(), dupFile(t, s.File()), s.Size(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer peer.Close()
	here, there := word(s, 64), word(peer, 64)

	if err := FutexWait(here, 1, time.Minute); err != nil {
		t.Errorf("waiting for another value: %v", err)
	}
	if err := FutexWait(here, 0, time.Millisecond); !errors.Is(err, ErrTimeout) {
		t.Errorf("waiting with nobody there: %v, expected ErrTimeout", err)
	}
	if err := FutexWait(here, 0, 0); !errors.Is(err, ErrTimeout) {
		t.Errorf("waiting for no time: %v, expected ErrTimeout", err)
	}
	// The same page at another address is the same word.
	done := make(chan error)
	go func() {
		for atomic.LoadUint32(here) == 0 {
			if err := FutexWait(here, 0, time.Minute); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	atomic.StoreUint32(there, 1)
	if err := FutexWake(there, 1); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	if n := testing.AllocsPerRun(100, func() {
		FutexWait(here, 0, time.Minute)
		FutexWake(here, 1)
	}); n != 0 {
		t.Errorf("%v allocations, expected none", n)
	}
}
