package command

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

	"github.com/ringside-go/ringside/collective"
	"github.com/ringside-go/ringside/collective/launch"
	"github.com/ringside-go/ringside/shm/plain"
	"github.com/ringside-go/ringside/tensor/cluster/trace"
)

// rankTrace is the trace of a run's ranks.
type rankTrace struct {
	recording
	dir   string // where ranks write
	hosts []launch.Host
	into  *trace.Options
}

// begin makes the files, and the folder where ranks write, if a trace is wanted.
func (r *rankTrace) begin(o *launch.Options) (err error) {
	if !r.wanted() {
		return nil
	}
	if r.into, err = r.options(); err != nil {
		return errors.Join(err, r.close())
	}
	if r.dir, err = os.MkdirTemp("", "ringside-events-"); err != nil {
		return errors.Join(err, r.close())
	}
	o.Events, r.hosts = r.dir, o.Hosts
	return nil
}

// read reads the events of the ranks of all hosts.
func (r *rankTrace) read() ([]*collective.RankEvents, error) {
	if len(r.hosts) == 0 {
		return collective.ReadEvents(r.dir)
	}
	var all []*collective.RankEvents
	for i, h := range r.hosts {
		ranks, err := collective.ReadEvents(launch.EventsOf(r.dir, r.hosts, i))
		if errors.Is(err, fs.ErrNotExist) { // the host has no rank
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, x := range ranks {
			x.Host = h.Name
		}
		all = append(all, ranks...)
	}
	slices.SortStableFunc(all, func(a, b *collective.RankEvents) int {
		return cmp.Or(cmp.Compare(a.Attempt, b.Attempt), cmp.Compare(a.Rank, b.Rank))
	})
	return all, nil
}

// end writes the files, and says what is in them, and how long it took to fetch the
// events of other hosts, in sum if there is one.
func (r *rankTrace) end(said io.Writer, sum *launch.Summary) error {
	if r.into == nil {
		return nil
	}
	name := r.path
	if name == "" {
		name = r.log
	}
	ranks, err := r.read()
	n, dropped := 0, uint64(0)
	if err == nil {
		n, dropped, err = trace.WriteRanks(ranks, r.into)
	}
	if err = errors.Join(err, r.close(), os.RemoveAll(r.dir)); err != nil {
		return fmt.Errorf("%s: %w", plain.Name(name), plain.Path(err))
	}
	fetched := ""
	if sum != nil && sum.FetchSeconds > 0 {
		fetched = fmt.Sprintf(", fetched from other hosts in %.3g s after %.3g s of the run", sum.FetchSeconds, sum.Seconds)
	}
	fmt.Fprintf(said, "%s of %s in %s%s\n", plain.Count(n, "event"), plain.Count(len(ranks), "rank"), plain.Name(name), fetched)
	if len(ranks) == 0 {
		fmt.Fprintln(said, "ranks have events once they call collective.Init")
	}
	if dropped > 0 {
		fmt.Fprintf(said, "%d events had no room: --trace-mib %d is the most that a file may have, and 128 MiB what a rank may write\n", dropped, r.mib)
	}
	return nil
}
