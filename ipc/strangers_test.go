package ipc_test

import (
	"slices"
	"testing"
	"time"

	"github.com/ringside-go/ringside/ipc"
)

// TestStrangers checks which handshake ends for one more.
func TestStrangers(t *testing.T) {
	var ended []int
	s := ipc.NewStrangers(4, 0, func(c int) { ended = append(ended, c) })
	add := func(c int, from string) {
		if !s.MakeRoom() {
			t.Errorf("no room for %d", c)
		}
		s.Add(c, from)
	}
	for i, from := range []string{"a", "b", "b", "a", "b", "c", "d", "d"} {
		add(i, from)
	}
	// 4: a and b have two each. 5: b has two. 6, 7: all have one.
	if want := []int{0, 1, 2, 3}; !slices.Equal(ended, want) {
		t.Errorf("ended %v, expected %v", ended, want)
	}
	went := 0
	s.Goes(3, func() { t.Error("an ended handshake goes on") })
	s.Goes(5, func() { went++ })
	s.Remove(5)
	s.Remove(5)
	s.Goes(5, func() { t.Error("a removed handshake goes on") })
	if s.Len() != 3 || went != 1 {
		t.Errorf("%d handshakes, expected 3; one that goes on did so %d times", s.Len(), went)
	}
	add(8, "e")
	add(9, "f") // d has two
	if want := []int{0, 1, 2, 3, 6}; !slices.Equal(ended, want) {
		t.Errorf("ended %v, expected %v", ended, want)
	}
}

// TestStrangersHaveTime checks that a handshake is not ended before its least time.
func TestStrangersHaveTime(t *testing.T) {
	s := ipc.NewStrangers(1, time.Hour, func(int) { t.Error("it was ended") })
	for _, want := range []bool{true, false} {
		if got := s.MakeRoom(); got != want {
			t.Fatalf("room: %v, expected %v", got, want)
		}
		if want {
			s.Add(1, "a")
		}
	}
	s.Remove(1)
	if !s.MakeRoom() {
		t.Error("no room after it was over")
	}
}
