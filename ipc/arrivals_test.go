package ipc_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringside-go/ringside/ipc"
)

// arrival is a conn of which only Close is called.
type arrival struct {
	ipc.Conn
	closed bool
}

func (c *arrival) Close() error { c.closed = true; return nil }

// TestArrivals has peers enter a queue that has no room: they get their turns in the
// order in which they came, and hear every second how many are before them.
func TestArrivals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most, atOnce, peers = 3, 2, 6
		a := ipc.NewArrivals[*arrival](ipc.NewWaiter(), most, atOnce)
		said := make([][]int, peers) // to each peer
		var in []int                 // peers that have their turn, in order
		errs := make([]error, peers)
		ctx, cancel := context.WithCancel(t.Context())
		for i := range peers {
			go func() {
				on := t.Context()
				if i == 3 {
					on = ctx
				}
				if errs[i] = a.Enter(on, func(before int) error { said[i] = append(said[i], before); return nil }); errs[i] == nil {
					in = append(in, i)
				}
			}()
			synctest.Wait()
		}
		expect := func(when string, want ...int) {
			t.Helper()
			synctest.Wait()
			if !slices.Equal(in, want) {
				t.Errorf("%s: %v have had their turns, expected %v", when, in, want)
			}
		}
		expect("at once", 0, 1)
		if !slices.Equal(said[2], []int{2}) || !slices.Equal(said[5], []int{5}) {
			t.Errorf("the third hears %v and the sixth %v, expected 2 and 5", said[2], said[5])
		}
		a.Add(&arrival{})
		expect("after one was made", 0, 1, 2)
		a.Add(&arrival{})
		expect("with two that wait to be accepted", 0, 1, 2)
		cancel()
		synctest.Wait()
		if !errors.Is(errs[3], context.Canceled) {
			t.Errorf("a peer that gives up: %v", errs[3])
		}
		<-time.After(time.Second + time.Millisecond)
		synctest.Wait()
		if want := []int{5, 4}; !slices.Equal(said[5], want) {
			t.Errorf("the sixth hears %v, expected %v", said[5], want)
		}
		if _, ok := a.TryAccept(); !ok {
			t.Error("nothing to accept")
		}
		expect("after one was accepted", 0, 1, 2, 4)
		a.Leave() // of the third
		expect("after one failed", 0, 1, 2, 4, 5)
		a.Close()
		if c := new(arrival); a.Add(c) {
			t.Error("Add after Close")
		}
		if err := a.Enter(t.Context(), func(int) error { return nil }); err != nil && !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
}

// TestArrivalsClose ends the waits of peers.
func TestArrivalsClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := ipc.NewArrivals[*arrival](ipc.NewWaiter(), 1, 1)
		nothing := func(int) error { return nil }
		if err := a.Enter(t.Context(), nothing); err != nil {
			t.Fatal(err)
		}
		c := new(arrival)
		a.Add(c)
		failed := errors.New("the peer is gone")
		if err := a.Enter(t.Context(), func(int) error { return failed }); err != failed {
			t.Errorf("%v, expected the error of busy", err)
		}
		var err error
		go func() { err = a.Enter(t.Context(), nothing) }()
		synctest.Wait()
		a.Close()
		a.Close()
		synctest.Wait()
		if !errors.Is(err, net.ErrClosed) || !c.closed {
			t.Errorf("%v, and the conn that waited is closed: %v", err, c.closed)
		}
		if _, err := a.Accept(t.Context()); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Accept: %v", err)
		}
	})
}
