package trace_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/ringside-go/ringside/tensor/cluster/trace"
)

// TestLastStep: the last step is of all workers and the client, lies in its time, and has
// programs.
func TestLastStep(t *testing.T) {
	var file bytes.Buffer
	record(t, 2, 20, trace.Options{Trace: &file})
	f, err := trace.Parse(&file)
	if err != nil {
		t.Fatal(err)
	}
	s, err := trace.LastStep(f)
	if err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for _, l := range s.Lanes {
		if l.Name != "client traced" && !strings.HasPrefix(l.Name, "worker w") {
			t.Errorf("lane %q", l.Name)
		}
		for _, e := range l.Events {
			count[e.Cat]++
			if e.At < 0 || e.Took < 0 || e.At+e.Took > s.Micros+1e-3 || e.Name == "" {
				t.Errorf("%+v in a step of %g us", e, s.Micros)
			}
		}
	}
	if !(s.Micros > 0) || len(s.Lanes) != 3 || count["program"] == 0 || count["message"] == 0 || count["step"] == 0 {
		t.Errorf("%g us, %d lanes, events %v", s.Micros, len(s.Lanes), count)
	}
	if _, err := trace.LastStep(&trace.File{}); !errors.Is(err, trace.ErrNoStep) {
		t.Errorf("of no events: %v", err)
	}
}
