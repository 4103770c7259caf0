package cluster

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/local"
	"github.com/ringside-go/ringside/tensor/cluster/client"
	"github.com/ringside-go/ringside/tensor/cluster/metrics"
)

const (
	// defaultStartTimeout is far more than a worker on a loaded machine needs to connect.
	defaultStartTimeout = 10 * time.Minute

	// firstReminder is how long Start waits until it logs who is missing. The next
	// reminder comes after twice the time.
	firstReminder = 10 * time.Second

	// looksAtStart is how often Start looks at who is missing, and namedAtOnce how many
	// of them an error or a line of the log names.
	looksAtStart = 500 * time.Millisecond
	namedAtOnce  = 4
)

// late finds the parts that keep a cluster from being ready.
type late struct {
	mu      sync.Mutex
	here    map[string]bool // parts that are connected, by Child.String
	unnamed int             // workers that the dispatcher has no room to name
	asked   time.Time       // when the dispatcher was asked; zero after its answer

	most   int       // parts that were connected at once
	since  time.Time // of the last increase of most, or of the first look
	looked time.Time // when look was called last
	pause  time.Duration
	remind time.Time // when the next reminder is due
}

// ask notes that the dispatcher is asked.
func (l *late) ask(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked = now
}

// answered notes the dispatcher's answer, which names the workers that are connected, and
// reports whether n of parts are. An answer has no room for the names of hundreds of
// workers: then the number of all that are connected has to do, which may be other
// hosts'.
func (l *late) answered(s client.Counters, parts []Part, n int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked = time.Time{}
	l.here = map[string]bool{string(RoleDispatcher): true}
	for _, p := range parts {
		// A worker whose device the dispatcher doesn't know yet takes no sessions.
		if _, ok := metrics.FindDevice(s, p.Name); ok && p.Role == RoleWorker {
			l.here[p.String()] = true
		}
	}
	named := len(metrics.WorkersOf(s))
	all := int(s.Get(metrics.Workers))
	l.unnamed = max(0, all-named)
	return len(l.here)-1 == n || l.unnamed > 0 && all >= n
}

// seen is what look finds.
type seen struct {
	missing       []Part
	unnamed       int           // of these are connected, without room for their names
	waited        time.Duration // since another part connected
	reminds, over bool          // a reminder or, after the limit, the error is due
}

// look looks which of parts are missing.
func (l *late) look(now time.Time, limit time.Duration, parts []Part) seen {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.since.IsZero() || len(l.here)+l.unnamed > l.most {
		l.most, l.since, l.pause = len(l.here)+l.unnamed, now, min(firstReminder, limit/2)
		l.remind = now.Add(l.pause)
	}
	silent := !l.asked.IsZero() && l.asked.Before(l.looked)
	l.looked = now
	s := seen{unnamed: l.unnamed, waited: now.Sub(l.since), reminds: !now.Before(l.remind)}
	for _, p := range parts {
		if !l.here[p.String()] || p.Role == RoleDispatcher && silent {
			s.missing = append(s.missing, p)
		}
	}
	if s.reminds {
		l.pause *= 2
		l.remind = now.Add(l.pause)
	}
	s.over = s.waited >= limit
	return s
}

// watchStart tells the log who is missing until stop is closed, and ends the cluster when
// no other part has connected for Options.StartTimeout.
func (c *Cluster) watchStart(l *late, stop <-chan struct{}) {
	tick := time.NewTicker(min(looksAtStart, c.o.StartTimeout/8+1))
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-c.ctx.Done():
			return
		case <-tick.C:
		}
		switch s := l.look(time.Now(), c.o.StartTimeout, c.Parts()); {
		case len(s.missing) == 0:
		case s.over:
			c.cancel(fmt.Errorf("%w: no other process has connected for %v: %s", ErrNotReady, c.o.StartTimeout, c.absent(s)))
			return
		case s.reminds:
			c.log.Warn("the cluster is not ready yet", "waits_for", c.absent(s), "waited", s.waited.Round(time.Second), "at_most", c.o.StartTimeout)
		}
	}
}

// absent says which parts are missing, and what to look at.
func (c *Cluster) absent(s seen) string {
	var all []string
	for _, p := range s.missing[:min(len(s.missing), namedAtOnce)] {
		all = append(all, c.absence(p))
	}
	if n := len(s.missing) - namedAtOnce; n > 0 {
		all = append(all, fmt.Sprintf("and %d more", n))
	}
	if s.unnamed > 0 {
		all = append(all, fmt.Sprintf("%d of these are connected, but the dispatcher's answer has no room for their names", s.unnamed))
	}
	return strings.Join(all, "; ")
}

// absence says that a part is missing, and what to look at.
func (c *Cluster) absence(p Part) string {
	does := "has not connected to the dispatcher"
	if p.Role == RoleDispatcher {
		does = "does not answer at " + c.o.Addr
	}
	if p.PID == 0 {
		return fmt.Sprintf("%s ended and is not started again yet", p)
	}
	text := fmt.Sprintf("%s (pid %d) %s", p, p.PID, does)
	if still := local.Standstill(ipc.Peer{PID: p.PID}); still != "" {
		return text + ": " + still
	}
	if c.starts == nil {
		return text
	}
	c.mu.Lock()
	said := c.said[p.Child]
	c.mu.Unlock()
	if words := said.words(time.Time{}); words != "" {
		text += ", and said: " + words
	}
	return fmt.Sprintf("%s (kill -QUIT %d ends it, with where it waits on its standard error)", text, p.PID)
}

// start starts everything and waits for it to be connected.
func (c *Cluster) start() error {
	var l late
	stop := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() { c.watchStart(&l, stop) })
	defer func() {
		close(stop)
		watch.Wait()
	}()
	if err := c.run(Child{Role: RoleDispatcher, Addr: c.o.Addr, ListenTCP: c.o.ListenTCP, SecretFile: c.o.SecretFile, Flight: c.o.Flight, TLS: c.o.TLS}); err != nil {
		return err
	}
	var m *client.Monitor
	defer func() {
		if m != nil {
			m.Close()
		}
	}()
	ask := func() (s client.Counters, all bool, err error) {
		l.ask(time.Now())
		if s, err = m.Status(c.ctx); err == nil {
			all = l.answered(s, c.Parts(), c.o.Workers)
		}
		return s, all, err
	}
	if err := c.poll(func() (done bool, err error) {
		if m == nil {
			if m, err = client.NewMonitor(c.ctx, nil, c.o.Addr); errors.Is(err, ipc.ErrNoListener) {
				return false, nil
			}
			if err != nil {
				return false, err
			}
		}
		// Another dispatcher may have the address: then this one is about to fail.
		s, _, err := ask()
		return err == nil && s.Get(metrics.PID) == uint64(c.Parts()[0].PID), err
	}); err != nil {
		return err
	}
	for i := range c.o.Workers {
		on := ""
		if len(c.o.Devices) > 0 {
			on = c.o.Devices[i%len(c.o.Devices)]
		}
		if err := c.run(Child{Role: RoleWorker, Name: fmt.Sprintf("w%d", i), Addr: c.o.Addr, TLS: c.o.TLS, Threads: c.o.Threads, Device: on,
			SessionMiB: c.o.SessionMiB, MemoryMiB: c.o.MemoryMiB, Shm: c.o.Shm, MaxWork: c.o.MaxWork, Batch: c.o.Batch, Flight: c.o.Flight}); err != nil {
			return err
		}
	}
	if err := c.poll(func() (bool, error) {
		_, all, err := ask()
		return all, err
	}); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ready = true
	return nil
}
