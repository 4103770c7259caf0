package gather_test

import (
	"bytes"
	"net/http"
	"runtime"
	"testing"
	"time"
)

// noLeaks fails the test if goroutines that it starts are there after its end.
func noLeaks(t testing.TB) {
	before := goroutines()
	t.Cleanup(func() {
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
		tick := time.NewTicker(5 * time.Millisecond) // goroutines end on their own
		defer tick.Stop()
		for deadline := time.Now().Add(10 * time.Second); ; <-tick.C {
			left := goroutines()
			for id := range before {
				delete(left, id)
			}
			if len(left) == 0 {
				return
			}
			if time.Now().After(deadline) {
				for _, stack := range left {
					t.Errorf("a goroutine is left:\n%s", stack)
				}
				return
			}
		}
	})
}

// goroutines returns the stacks of all goroutines but this one, by what names them. The
// poller that netpoll starts with the first TCP conn of a process stays for ever: on a
// loaded machine ranks may take TCP in any test.
func goroutines() map[string]string {
	b := make([]byte, 1<<20)
	for {
		n := runtime.Stack(b, true)
		if n < len(b) {
			b = b[:n]
			break
		}
		b = make([]byte, 2*len(b))
	}
	all := map[string]string{}
	for i, g := range bytes.Split(b, []byte("\n\n")) {
		if id, _, _ := bytes.Cut(g, []byte(" [")); i > 0 && !bytes.Contains(g, []byte("created by github.com/cloudwego/netpoll.(*manager).Run")) {
			all[string(id)] = string(g)
		}
	}
	return all
}
