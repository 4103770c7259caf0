package wire

import (
	"math"

	"github.com/ringside-go/ringside/ipc/encoding"
)

// Training is how far a training run of a client is. The process sends it to the
// dispatcher over a control connection, again and again; the dispatcher keeps the last
// one, and some of those whose connection has ended, for those that ask (Status).
//
//	session uint64, pid, step and steps uvarint, loss, lr and rate float64, left uvarint,
//	over bool, name and unit and sample text, points uvarint, then of each: step uvarint
//	(as the difference to the one before), loss and lr float64
type Training struct {
	Session uint64 // 0; in an answer the dispatcher's number of the run
	PID     uint64
	Step    uint64 // the last whose loss was read
	Steps   uint64
	Loss    float64
	LR      float64
	Rate    float64 // of Unit a second
	Left    uint64  // nanoseconds
	Over    bool    // it has ended, or its process has
	Name    string  // of the model
	Unit    string
	Sample  string          // what a language model wrote, cut to MaxText
	Points  []TrainingPoint // losses over the whole run, thinned out
}

// TrainingPoint is the loss of a step.
type TrainingPoint struct {
	Step     uint64
	Loss, LR float64
}

// MaxPoints is the most points of a Training.
const MaxPoints = 512

func (m *Training) walk(w *encoding.Walk) {
	w.U64("Session", &m.Session)
	w.Uvarint("PID", &m.PID)
	w.Uvarint("Step", &m.Step)
	w.Uvarint("Steps", &m.Steps)
	finite(w, "Loss", &m.Loss)
	finite(w, "LR", &m.LR)
	finite(w, "Rate", &m.Rate)
	w.Uvarint("Left", &m.Left)
	w.Bool("Over", &m.Over)
	w.Text("Name", &m.Name, MaxName)
	w.Text("Unit", &m.Unit, MaxName)
	w.Text("Sample", &m.Sample, MaxText)
	encoding.List(w, "Points", &m.Points, MaxPoints, 17)
	last := uint64(0)
	for i := range m.Points {
		p := &m.Points[i]
		w.Delta("Points.Step", &p.Step, last)
		finite(w, "Points.Loss", &p.Loss)
		finite(w, "Points.LR", &p.LR)
		last = p.Step
	}
}

// finite walks a number that texts can have: JSON knows no others.
func finite(w *encoding.Walk, field string, x *float64) {
	w.F64(field, x)
	if w.Parses() && (math.IsNaN(*x) || math.IsInf(*x, 0)) {
		w.Fail(field, "%v, want a finite number", *x)
	}
}
