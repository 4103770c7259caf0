package trace

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/ringside-go/ringside/tensor/cluster/client"
)

// Step is what workers did in the time of one message with a program, from the end of the
// one before. Times are microseconds.
type Step struct {
	Micros float64    `json:"micros"` // how long it took
	Lanes  []StepLane `json:"lanes"`
}

// StepLane is what one worker did.
type StepLane struct {
	Name   string      `json:"name"`
	Events []StepEvent `json:"events"`
}

// StepEvent is an event of a Step. Events are in those of their lane that begin before
// them and end behind them.
type StepEvent struct {
	Name   string  `json:"name"`
	Cat    string  `json:"cat"`
	At     float64 `json:"at"` // since the step's beginning
	Took   float64 `json:"took"`
	Beside bool    `json:"beside,omitempty"` // a collective beside programs
}

// ErrNoStep is returned where no program ran in the time of a trace.
var ErrNoStep = errors.New("trace: no program ran")

const (
	// stepBytes is a file of the events of some seconds of a busy cluster.
	stepBytes = 32 << 20
	// maxStepEvents is more than a picture shows.
	maxStepEvents = 4096
)

// Record has workers keep their events for as long as is given, and returns the last step
// in it. m has no other questions meanwhile.
func Record(ctx context.Context, m *client.Monitor, long time.Duration) (*Step, error) {
	var file strings.Builder
	r, err := Start(ctx, m, &Options{Trace: &file, MaxBytes: stepBytes})
	if err != nil {
		return nil, err
	}
	select {
	case <-ctx.Done():
	case <-r.Done():
	case <-time.After(long):
	}
	if err := r.Stop(); err != nil {
		return nil, err
	}
	// A viewer's rules, which Parse checks, are not the page's.
	f := &File{Processes: map[int]string{}}
	if err := f.read(strings.NewReader(file.String())); err != nil {
		return nil, err
	}
	return LastStep(f)
}

// LastStep returns the last step of a trace: of the worker whose program ended last.
func LastStep(f *File) (*Step, error) {
	runs := f.pick(func(e *Event) bool { return e.Phase == "X" && e.Cat == catMessage && e.Name == "Run" })
	var last *Event
	for _, e := range runs {
		if last == nil || e.end() > last.end() {
			last = e
		}
	}
	if last == nil {
		return nil, ErrNoStep
	}
	from, to := math.Inf(-1), last.end()
	for _, e := range runs {
		if e.PID == last.PID && e.end() <= last.TS {
			from = max(from, e.end())
		}
	}
	if math.IsInf(from, -1) {
		from = last.TS
	}
	s, lanes, begun := &Step{Micros: to - from}, map[int]int{}, map[string]float64{}
	for i := range f.Events {
		e := &f.Events[i]
		at, took, beside := e.TS, e.end()-e.TS, false
		switch e.Phase {
		case "X":
		case "b":
			begun[e.ID] = e.TS
			continue
		case "e":
			at, took, beside = begun[e.ID], e.TS-begun[e.ID], true
		default:
			continue
		}
		asked := e.Cat == catMessage && e.Name == "Watch" // by the recorder
		if asked || at+took <= from || at >= to {
			continue
		}
		n, ok := lanes[e.PID]
		if !ok {
			n = len(s.Lanes)
			lanes[e.PID] = n
			s.Lanes = append(s.Lanes, StepLane{Name: f.Processes[e.PID]})
		}
		if l := &s.Lanes[n]; len(l.Events) < maxStepEvents {
			begin, end := max(at, from), min(at+took, to)
			l.Events = append(l.Events, StepEvent{Name: e.Name, Cat: e.Cat, At: begin - from, Took: end - begin, Beside: beside})
		}
	}
	slices.SortFunc(s.Lanes, func(a, b StepLane) int { return strings.Compare(a.Name, b.Name) })
	return s, nil
}
