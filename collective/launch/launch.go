package launch

import (
	"context"
	"fmt"
	"sync"
	"syscall"
	"time"

	"github.com/ringside-go/ringside/shm/limits"
)

// slowEnd is how long the others may take to end after a rank has failed before that is
// said.
const slowEnd = time.Second

// Summary is how a run went.
type Summary struct {
	Ranks    int     `json:"ranks"`
	Hosts    int     `json:"hosts"`
	Restarts int     `json:"restarts"`
	Seconds  float64 `json:"seconds"` // until all ranks had ended
	// FetchSeconds is the time after that to fetch the events of other hosts.
	FetchSeconds float64 `json:"fetch_seconds"`
	ExitCode     int     `json:"exit_code"`
	// Failures has what began it in each attempt that failed.
	Failures []*RankError `json:"failures"`
}

// Run starts all ranks and returns when all have ended: nil if they ended well, a
// *RankError for the one whose failure began it, or the context's error. The summary is
// nil only for ErrOption and ErrThreads.
func Run(ctx context.Context, o Options) (*Summary, error) {
	s, err := settle(o)
	if err != nil {
		return nil, err
	}
	if s.folder != nil {
		defer s.folder.remove()
	}
	if err := enoughThreads(limits.Machine{}.Threads(threadsOf(s.here())), s.here()); err != nil {
		return nil, err
	}
	sum := &Summary{Ranks: s.Ranks, Hosts: s.hosts, Failures: []*RankError{}}
	begin := time.Now()
	t := newThread()
	defer t.close()
	defer func() {
		sum.Seconds = time.Since(begin).Seconds()
		sum.FetchSeconds = s.fetchEvents().Seconds()
	}()
	var k *keeper
	if s.here() > 0 {
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

// here returns how many ranks are on this host.
func (s *settled) here() (n int) {
	for _, p := range s.places {
		if p.name == Localhost {
			n++
		}
	}
	return n
}

const (
	// threadsOfRank is how many threads a local rank takes at least: one of its own, and
	// one of this process that waits for its end.
	threadsOfRank = 2

	// threadsOfOwn is how many threads this process starts, and one of the shell that
	// outlives it.
	threadsOfOwn = 8
)

// threadsOf returns how many threads so many ranks need.
func threadsOf(ranks int) int { return threadsOfOwn + ranks*threadsOfRank }

// enoughThreads returns ErrThreads where so many ranks can't all be started. The Go
// runtime ends a process that finds no thread, and this one's ranks with it.
func enoughThreads(t limits.Threads, ranks int) error {
	if need := threadsOf(ranks); ranks > 0 && t.Free < need {
		return fmt.Errorf("%w: %d ranks here need %d at least, and %v: %s, and by as many as the program has", ErrThreads, ranks, need, t, t.Raise(need))
	}
	return nil
}

// attempt starts all ranks once and waits until all have ended. It returns the error of
// the rank that failed first.
func (s *settled) attempt(ctx context.Context, t thread, k *keeper, epoch int) (*RankError, error) {
	var output sync.Mutex // of all ranks' lines
	swept := make(chan *rank, len(s.places))
	a := &attempt{s: s, epoch: epoch, over: make(chan *rank, len(s.places)), fault: blame{ended: map[int]bool{}}, waits: -1}
	var err error
	for _, p := range s.places {
		if err = ctx.Err(); err != nil {
			break
		}
		var r *rank
		if r, err = s.start(t, k, p, epoch, &output, a.over, swept); err != nil {
			break
		}
		a.ranks = append(a.ranks, r)
	}
	interrupted := ctx.Done()
	if err != nil {
		interrupted = nil
		a.end()
	}
	a.alive = len(a.ranks)
	for left := len(a.ranks); a.alive > 0 || left > 0; {
		select {
		case <-swept:
			left--
		case r := <-a.over:
			a.ended(r)
		case <-a.silent:
			if a.timer == nil {
				a.conclude()
			}
		case <-a.slow:
			if left := a.running(); len(left) > 0 {
				a.s.Logger.Warn("a rank failed, waiting for the others to end", "failed", a.first.Rank, "ranks", left, "at most", a.s.Grace)
			}
		case <-interrupted:
			err, interrupted = ctx.Err(), nil
			a.end()
			a.s.Logger.Warn("interrupted, waiting for ranks to end", "ranks", a.running(), "at most", a.s.Grace)
		case <-a.kill:
			for _, r := range a.ranks {
				r.signal(syscall.SIGKILL)
			}
		}
	}
	if a.timer != nil {
		a.timer.Stop()
	}
	a.lastWords()
	return a.first, err
}

// attempt is one under way.
type attempt struct {
	s      *settled
	epoch  int
	ranks  []*rank
	alive  int        // of ranks
	over   chan *rank // that have ended
	fault  blame
	first  *RankError
	waits  int              // rank whose end is awaited, as others name it; -1: none
	silent <-chan time.Time // for how long
	slow   <-chan time.Time // when the others have not ended soon after a failure
	timer  *time.Timer      // since all were asked to end
	kill   <-chan time.Time
}

// end asks all ranks to end, once, and sets the time until they must.
func (a *attempt) end() {
	if a.timer != nil {
		return
	}
	a.timer = time.NewTimer(a.s.Grace)
	a.kill = a.timer.C
	for _, r := range a.ranks {
		r.signal(syscall.SIGTERM)
	}
}

// running returns the ranks that have not ended, as far as is known.
func (a *attempt) running() []int {
	var list []int
	for _, r := range a.ranks {
		if !a.fault.ended[r.place.rank] {
			list = append(list, r.place.rank)
		}
	}
	return list
}

// conclude decides which rank failed first and ends the others. Run's error, or the
// warning of a restart, says why.
func (a *attempt) conclude() {
	a.first = a.fault.verdict()
	a.slow = time.After(slowEnd)
	a.end()
}

// ended notes the end of r and of all that have ended by now.
func (a *attempt) ended(r *rank) {
	for more := true; more; {
		a.alive--
		a.fault.ended[r.place.rank] = true
		if r.err != nil && a.timer == nil {
			a.fault.failed = append(a.fault.failed, r)
		}
		select {
		case r = <-a.over:
		default:
			more = false
		}
	}
	if len(a.fault.failed) == 0 || a.timer != nil || a.waits >= 0 && !a.fault.ended[a.waits] {
		return
	}
	a.fault.look(a.s, a.epoch)
	a.waits = a.fault.awaited()
	switch {
	case a.waits < 0:
		a.conclude()
	case a.silent == nil:
		a.silent = time.After(confession)
	}
}
