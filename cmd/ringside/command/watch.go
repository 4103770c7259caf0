package command

import (
	"context"
	"errors"
	"time"

	"github.com/ringside-go/ringside/tensor/cluster/client"
	"github.com/ringside-go/ringside/tensor/cluster/metrics"
)

// watchAnswers is how long the commands that watch wait for the dispatcher's first
// answer.
const watchAnswers = 5 * time.Second

// sampleNow asks the dispatcher and the workers, and returns when all have answered or
// wait is over. For a worker that has not answered, its older answer in last counts; last
// may be nil.
func sampleNow(ctx context.Context, w *client.Monitor, last *metrics.Sample, wait time.Duration) (*metrics.Sample, error) {
	s := &metrics.Sample{At: time.Now(), Workers: map[string]metrics.Answer{}}
	if err := errors.Join(w.AskAll(ctx), w.Ask(ctx, client.Question{})); err != nil {
		return nil, err
	}
	until, cancel := context.WithTimeout(ctx, max(wait, watchAnswers))
	defer cancel()
	fresh := map[string]bool{}
	for s.Dispatcher == nil || len(fresh) < len(s.Workers) {
		a, err := w.Next(until)
		switch {
		case err != nil && ctx.Err() == nil && until.Err() != nil && s.Dispatcher != nil:
			return s, nil
		case err != nil:
			return nil, err
		}
		switch a := a.(type) {
		case client.Counters:
			s.Dispatcher = a
			for _, name := range metrics.WorkersOf(a) {
				if _, ok := s.Workers[name]; !ok && last != nil {
					s.Workers[name] = last.Workers[name]
				} else if !ok {
					s.Workers[name] = metrics.Answer{At: s.At}
				}
			}
			// A busy worker does not hold the others up.
			until, cancel = context.WithTimeout(ctx, wait)
			defer cancel()
		case *client.Training:
			s.Trainings = append(s.Trainings, metrics.TrainingOf(a))
		case *client.WorkerReport:
			s.Workers[a.Worker] = metrics.Answer{Watched: a, At: time.Now()}
			fresh[a.Worker] = true
		}
	}
	return s, nil
}
