package launch

import (
	"context"
	"slices"
	"sync"
	"syscall"
	"time"
)

// Summary is how a run went.
type Summary struct {
	Ranks    int          `json:"ranks"`
	Hosts    int          `json:"hosts"`
	Restarts int          `json:"restarts"`
	Seconds  float64      `json:"seconds"`
	ExitCode int          `json:"exit_code"`
	Failures []*RankError `json:"failures"` // what began it in each attempt that failed
}

// Run starts all ranks and returns when all have ended: nil if they ended well, a
// *RankError for the one whose failure began it, or the context's error. The summary is
// nil only for ErrOption.
func Run(ctx context.Context, o Options) (*Summary, error) {
	s, err := settle(o)
	if err != nil {
		return nil, err
	}
	if s.folder != nil {
		defer s.folder.remove()
	}
	sum := &Summary{Ranks: s.Ranks, Hosts: s.hosts, Failures: []*RankError{}}
	begin := time.Now()
	defer func() { sum.Seconds = time.Since(begin).Seconds() }()
	t := newThread()
	defer t.close()
	var k *keeper
	if slices.ContainsFunc(s.places, func(p place) bool { return p.name == Localhost }) {
		k = newKeeper(s.Logger)
		defer k.close()
	}
	for {
		failed, err := s.attempt(ctx, t, k, sum.Restarts)
		switch {
		case err != nil:
			sum.ExitCode = 1
			return sum, err
		case failed == nil:
			sum.ExitCode = 0
			return sum, nil
		}
		sum.Failures = append(sum.Failures, failed)
		sum.ExitCode = failed.Code
		if sum.Restarts == s.Restarts {
			return sum, failed
		}
		sum.Restarts++
		s.Logger.Warn("starting all ranks again", "after", failed.Error(), "restart", sum.Restarts, "of", s.Restarts)
	}
}

// attempt starts all ranks once and waits until all have ended. It returns the error of
// the rank that failed first.
func (s *settled) attempt(ctx context.Context, t *thread, k *keeper, epoch int) (*RankError, error) {
	var (
		output sync.Mutex // of all ranks' lines
		ended  = make(chan *rank, len(s.places))
		swept  = make(chan *rank, len(s.places))
		ranks  []*rank
		fault  = blame{ended: map[int]bool{}}
		first  *RankError
		err    error
		waits  = -1             // for the end of this rank, which those that failed name
		silent <-chan time.Time // for how long
		timer  *time.Timer      // since all were asked to end
		kill   <-chan time.Time
	)
	for _, p := range s.places {
		if err = ctx.Err(); err != nil {
			break
		}
		var r *rank
		if r, err = s.start(t, k, p, epoch, &output, ended, swept); err != nil {
			break
		}
		ranks = append(ranks, r)
	}
	end := func() { // ask all to end, and set the time until they must
		if timer != nil {
			return
		}
		timer = time.NewTimer(s.Grace)
		kill = timer.C
		for _, r := range ranks {
			r.signal(syscall.SIGTERM)
		}
	}
	conclude := func() {
		first = fault.verdict()
		s.Logger.Warn("rank failed, ending the others", "err", first.Error())
		end()
	}
	interrupted := ctx.Done()
	if err != nil {
		interrupted = nil
		end()
	}
	for alive, left := len(ranks), len(ranks); alive > 0 || left > 0; {
		select {
		case <-swept:
			left--
		case r := <-ended:
			for more := true; more; { // all that have ended by now
				alive--
				fault.ended[r.place.rank] = true
				if r.err != nil && timer == nil {
					fault.failed = append(fault.failed, r)
				}
				select {
				case r = <-ended:
				default:
					more = false
				}
			}
			if len(fault.failed) == 0 || timer != nil || waits >= 0 && !fault.ended[waits] {
				continue
			}
			fault.look(s, epoch)
			waits = fault.awaited()
			switch {
			case waits < 0:
				conclude()
			case silent == nil:
				silent = time.After(confession)
			}
		case <-silent:
			if timer == nil {
				conclude()
			}
		case <-interrupted:
			err, interrupted = ctx.Err(), nil
			end()
		case <-kill:
			for _, r := range ranks {
				r.signal(syscall.SIGKILL)
			}
		}
	}
	if timer != nil {
		timer.Stop()
	}
	return first, err
}
