package page

import (
	"context"
	"sync"
	"time"

	"github.com/ringside-go/ringside/tensor/cluster/metrics"
)

const (
	// every is the time between two questions.
	every = time.Second
	// watched is how long questions go on after the last request. Workers measure only
	// while they are asked: a longer interval of Prometheus loses busy time.
	watched = time.Minute
)

// collector asks again and again while there are requests.
type collector struct {
	sample func(ctx context.Context, last *metrics.Sample, wait time.Duration) (*metrics.Sample, error)
	ctx    context.Context

	runs    sync.WaitGroup
	mu      sync.Mutex
	running bool
	until   time.Time // it runs until then
	fresh   chan struct{}

	last   *metrics.Sample // nil after an error
	report *metrics.Report // of the last two; nil before them
	err    error
}

func newCollector(ctx context.Context, o *Options) *collector {
	return &collector{sample: o.Sample, ctx: ctx, fresh: make(chan struct{})}
}

// get returns the newest sample and what happened since the one before. It waits for them
// if nothing was asked for a while.
func (c *collector) get(ctx context.Context) (*metrics.Sample, *metrics.Report, error) {
	for {
		c.mu.Lock()
		c.until = time.Now().Add(watched)
		if !c.running && c.ctx.Err() == nil {
			c.running, c.last, c.report, c.err = true, nil, nil, nil
			c.runs.Go(c.run)
		}
		last, report, err, fresh := c.last, c.report, c.err, c.fresh
		c.mu.Unlock()
		if err != nil || report != nil {
			return last, report, err
		}
		select {
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		case <-c.ctx.Done():
			return nil, nil, c.ctx.Err()
		case <-fresh:
		}
	}
}

// wait waits for the last question; the context is done.
func (c *collector) wait() {
	c.mu.Lock() // a request has started its run, or finds the context done
	c.until = time.Time{}
	c.mu.Unlock()
	c.runs.Wait()
}

// run asks until no request came for a while.
func (c *collector) run() {
	wait := every / 5 // a first report soon
	for {
		c.mu.Lock()
		before := c.last
		if c.ctx.Err() != nil || time.Now().After(c.until) {
			c.running = false
			c.mu.Unlock()
			return
		}
		c.mu.Unlock()
		now, err := c.sample(c.ctx, before, every)
		c.mu.Lock()
		c.last, c.err = now, err
		switch {
		case err != nil:
			c.last, c.report = nil, nil
		case before != nil:
			c.report = metrics.Compare(before, now)
		}
		close(c.fresh)
		c.fresh = make(chan struct{})
		c.mu.Unlock()
		select {
		case <-c.ctx.Done():
		case <-time.After(wait):
		}
		wait = every
	}
}
