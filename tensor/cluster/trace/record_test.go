package trace

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ringside-go/ringside/tensor/cluster/client"
)

// TestWindow: the file has no event of a worker that ended before the trace began, by the
// clock of the worker. An event that is under way then is whole.
func TestWindow(t *testing.T) {
	const ms = int64(time.Millisecond)
	for _, ahead := range []int64{0, 5000 * ms, -5000 * ms} { // the worker's clock
		var file strings.Builder
		r := &Recorder{writer: newWriter(&file, nil, 1<<20), begin: time.Now(), titles: map[titled]string{}, shapes: map[uint64]string{}}
		x := &worker{process: r.process("worker w0", "messages"), known: true, far: ahead != 0, ahead: ahead}
		var want []string
		for i, c := range []struct {
			at, took int64 // from the beginning of the trace
			kept     bool
		}{
			{-3000 * ms, 10 * ms, false},
			{-2 * ms, 2*ms - 1, false},
			{-2 * ms, 2 * ms, true}, // it ends as the trace begins
			{-3000 * ms, 3001 * ms, true},
			{-1, 0, false},
			{0, 0, true},
			{5 * ms, ms, true},
		} {
			e := client.Event{Kind: client.EventProgram, Begin: uint64(r.begin.UnixNano() + c.at + ahead), Took: uint64(c.took)}
			r.event(x, uint64(2*i), &e)
			e.Kind = client.EventOverlapped
			r.event(x, uint64(2*i+1), &e)
			if micros := float64(c.at) / 1e3; c.kept {
				want = append(want, fmt.Sprintf("X %v for %v", micros, float64(c.took)/1e3), fmt.Sprintf("b %v", micros), fmt.Sprintf("e %v", micros+float64(c.took)/1e3))
			}
		}
		if err := r.end(0); err != nil {
			t.Fatal(err)
		}
		f, err := Parse(strings.NewReader(file.String()))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, e := range f.Events {
			switch {
			case e.Phase == "X":
				got = append(got, fmt.Sprintf("X %v for %v", e.TS, *e.Dur))
			case e.Phase != "M":
				got = append(got, fmt.Sprintf("%s %v", e.Phase, e.TS))
			}
		}
		if g, w := strings.Join(got, "\n"), strings.Join(want, "\n"); g != w {
			t.Errorf("worker's clock %v ahead:\n%s\nexpected\n%s", time.Duration(ahead), g, w)
		}
	}
}
