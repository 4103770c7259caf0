package local_test

import (
	"testing"

	"github.com/ringside-go/ringside/ipc/local"
)

// TestOnPark: everybody who asked is called before a sleep, until it forgets.
func TestOnPark(t *testing.T) {
	w, err := local.NewWaiter()
	if err != nil {
		t.Fatal(err)
	}
	ctx := testContext(t)
	var calls [2]int
	var forget [2]func()
	for i := range calls {
		forget[i] = w.OnPark(func() {
			calls[i]++
			w.Wake() // not a long sleep
		})
	}
	sleepUntil := func(i, n int) {
		t.Helper()
		if err := w.Wait(ctx, func() bool { return calls[i] >= n }); err != nil {
			t.Fatal(err)
		}
	}
	sleepUntil(0, 2)
	if calls[0] != calls[1] {
		t.Errorf("called %v times, expected the same", calls)
	}
	forget[0]()
	before := calls[0]
	sleepUntil(1, calls[1]+2)
	if calls[0] != before {
		t.Errorf("called %d times after it forgot", calls[0]-before)
	}
	forget[1]()
	forget[0]() // once more does nothing
}
