package metrics

import "github.com/ringside-go/ringside/tensor/cluster/internal/wire"

// Training is how far a training run is, as its process tells the dispatcher.
type Training struct {
	Run    uint64  `json:"run"` // the dispatcher's number
	PID    uint64  `json:"pid"`
	Name   string  `json:"name"` // of the model
	Step   uint64  `json:"step"` // the last whose loss was read
	Steps  uint64  `json:"steps"`
	Loss   float64 `json:"loss"`
	LR     float64 `json:"lr"`
	Rate   float64 `json:"rate"` // of Unit a second
	Unit   string  `json:"unit"`
	Left   float64 `json:"left_seconds"`
	Over   bool    `json:"over"`
	Sample string  `json:"sample,omitempty"`
	// Curve has losses over the whole run, of most steps only in short runs.
	Curve []Point `json:"curve"`
}

// Point is the loss of a step.
type Point struct {
	Step uint64  `json:"step"`
	Loss float64 `json:"loss"`
	LR   float64 `json:"lr"`
}

// TrainingOf returns what a message tells.
func TrainingOf(m *wire.Training) Training {
	t := Training{Run: m.Session, PID: m.PID, Name: m.Name, Step: m.Step, Steps: m.Steps, Loss: m.Loss, LR: m.LR, Rate: m.Rate,
		Unit: m.Unit, Left: float64(m.Left) / 1e9, Over: m.Over, Sample: m.Sample, Curve: make([]Point, len(m.Points))}
	for i, p := range m.Points {
		t.Curve[i] = Point(p)
	}
	return t
}
