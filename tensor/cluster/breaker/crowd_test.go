package breaker_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster"
)

// TestCrowd has many clients come at once. Each waits for its turn, computes and goes.
func TestCrowd(t *testing.T) {
	clients := 1000
	if testing.Short() {
		clients = 150
	}
	c := start(t, cluster.Options{Workers: 1})
	h := newHonest(t, dial(t, c, 1))
	done := make(chan error, clients)
	began := time.Now()
	for range clients {
		go func() {
			done <- func() error {
				e, err := tryDial(t, c, 1)
				if err != nil {
					return err
				}
				defer e.Close()
				x, err := tensor.Ones(tensor.NewSession(e, nil), tensor.F32, 100).Sum().Item()
				if err == nil && x != 100 {
					err = fmt.Errorf("got %v, expected 100", x)
				}
				return err
			}()
		}()
	}
	failed := 0
	for range clients {
		if err := <-done; err != nil {
			if failed++; failed <= 3 {
				t.Error(err)
			}
		}
	}
	t.Logf("%d of %d clients failed, the last was done after %v", failed, clients, time.Since(began))
	h.round()
	h.report("a crowd", maxStallFull)
}
