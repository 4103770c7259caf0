package command

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/ringside-go/ringside/tensor/cluster/client"
	"github.com/ringside-go/ringside/tensor/train"
)

// TestTeller: the curve has at most so many points, from the first step to the last, in
// their order, and those of steps that are taken again once.
func TestTeller(t *testing.T) {
	tell := newTeller("m", slog.New(slog.DiscardHandler))
	if got := tell.trainings(); got != nil {
		t.Errorf("before the first loss: %+v", got)
	}
	const steps = 10_000
	for step := 1; step <= steps; step++ {
		tell.show(train.Progress{Step: step, Steps: steps, Loss: float64(steps - step)})
		if step == 7777 { // it goes on from a checkpoint
			step = 7000
			tell.show(train.Progress{Step: step, Steps: steps, Loss: float64(steps - step)})
			break
		}
	}
	for step := 7001; step <= steps; step++ {
		tell.show(train.Progress{Step: step, Steps: steps, Loss: float64(steps - step)})
	}
	tell.sampled("\x1b" + strings.Repeat("é", client.MaxText))
	tell.over()
	c := tell.copied()
	if n := len(c.Points); n > client.MaxPoints || n < client.MaxPoints/4 || c.Points[0].Step != 1 || c.Points[n-1].Step != steps {
		t.Fatalf("%d points, from %+v to %+v", n, c.Points[0], c.Points[n-1])
	}
	for i, p := range c.Points {
		if p.Loss != float64(steps-int(p.Step)) || i > 0 && p.Step <= c.Points[i-1].Step {
			t.Errorf("point %d is %+v, after %+v", i, p, c.Points[max(i-1, 0)])
		}
	}
	if len(c.Sample) > client.MaxText || !strings.HasPrefix(c.Sample, `\x1bé`) || !c.Over {
		t.Errorf("a sample of %d bytes, %.10q", len(c.Sample), c.Sample)
	}
	tell.end() // it has told no dispatcher
}
