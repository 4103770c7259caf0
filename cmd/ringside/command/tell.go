package command

import (
	"context"
	"log/slog"
	"os"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/ringside-go/ringside/tensor/cluster/client"
	"github.com/ringside-go/ringside/tensor/cluster/metrics"
	"github.com/ringside-go/ringside/tensor/train"
)

const (
	// tellEvery is the time between two messages to the dispatcher.
	tellEvery = 500 * time.Millisecond
	// tellTimeout bounds the wait for a dispatcher that is gone or stuck.
	tellTimeout = time.Second
)

// teller keeps how far a training run is, and tells the dispatcher from time to time, so
// that top and pages show it. A run goes on where that fails.
type teller struct {
	log *slog.Logger

	mu    sync.Mutex
	now   client.Training
	every int // of so many losses one is in the curve
	seen  int // losses
	news  bool

	stop func() // nil without a dispatcher
}

// newTeller returns a teller about a run of a model.
func newTeller(model string, log *slog.Logger) *teller {
	return &teller{log: log, every: 1, now: client.Training{PID: uint64(os.Getpid()), Name: model}}
}

// show takes a loss that was read.
func (t *teller) show(p train.Progress) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := &t.now
	n.Step, n.Steps, n.Loss, n.LR, n.Rate, n.Unit, n.Left = uint64(p.Step), uint64(p.Steps), p.Loss, p.LR, p.Rate, p.Unit, uint64(max(p.Left, 0))
	for len(n.Points) > 0 && n.Points[len(n.Points)-1].Step >= n.Step { // taken again
		n.Points = n.Points[:len(n.Points)-1]
	}
	if t.seen++; t.seen%t.every == 0 {
		if len(n.Points) == client.MaxPoints-1 {
			half := n.Points[:0]
			for i := 0; i < len(n.Points); i += 2 {
				half = append(half, n.Points[i])
			}
			n.Points = half
			t.every *= 2
		}
		n.Points = append(n.Points, client.TrainingPoint{Step: n.Step, Loss: n.Loss, LR: n.LR})
	}
	t.news = true
}

// sampled takes a text that a language model wrote.
func (t *teller) sampled(text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if text = printable(text); len(text) > client.MaxText {
		text = string([]rune(text)[:client.MaxText/utf8.UTFMax])
	}
	t.now.Sample, t.news = text, t.seen > 0
}

// over takes that the run has ended.
func (t *teller) over() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.now.Over, t.now.Left, t.news = true, 0, t.seen > 0
}

// copied returns how far the run is, the last loss as a point of the curve too.
func (t *teller) copied() *client.Training {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.now
	c.Points = append([]client.TrainingPoint{}, t.now.Points...)
	if n := len(c.Points); t.seen > 0 && (n == 0 || c.Points[n-1].Step < c.Step) {
		c.Points = append(c.Points, client.TrainingPoint{Step: c.Step, Loss: c.Loss, LR: c.LR})
	}
	return &c
}

// trainings returns the run for a page of this process; nothing before its first loss.
func (t *teller) trainings() []metrics.Training {
	c := t.copied()
	if c.Steps == 0 {
		return nil
	}
	return []metrics.Training{metrics.TrainingOf(c)}
}

// begin tells the dispatcher at addr from now on until end.
func (t *teller) begin(o *client.Options, addr string) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		var m *client.Monitor
		for running := true; running; {
			select {
			case <-ctx.Done():
				running = false // one last message
			case <-time.After(tellEvery):
			}
			m = t.tell(m, o, addr)
		}
		if m != nil {
			_ = m.Close()
		}
	}()
	t.stop = func() {
		cancel()
		<-done
	}
}

// end waits for the last message.
func (t *teller) end() {
	if t.stop != nil {
		t.stop()
		t.stop = nil
	}
}

// tell tells what is new, over m or, if that is nil, a connection that it makes. It
// returns nil for one that has ended.
func (t *teller) tell(m *client.Monitor, o *client.Options, addr string) *client.Monitor {
	t.mu.Lock()
	news := t.news
	t.news = false
	t.mu.Unlock()
	if !news {
		return m
	}
	ctx, cancel := context.WithTimeout(context.Background(), tellTimeout)
	defer cancel()
	var err error
	if m == nil {
		if m, err = client.NewMonitor(ctx, o, addr); err != nil {
			m = nil
		}
	}
	if err == nil {
		err = m.Tell(ctx, t.copied())
	}
	if err == nil {
		return m
	}
	t.log.Debug("the dispatcher is not told how far the training is", "err", err)
	if m != nil {
		_ = m.Close()
	}
	t.mu.Lock()
	t.news = true // again next time
	t.mu.Unlock()
	return nil
}
