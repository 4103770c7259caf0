package client

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ringside-go/ringside/collective"
	"github.com/ringside-go/ringside/tensor"
)

// flightRuns is the number of batches that an engine remembers.
const flightRuns = 64

// flight remembers the last batches of an engine, to be written down when its session is
// lost or a wait is over before its answer. Submit uses it.
type flight struct {
	folder string // empty: nothing is remembered
	born   time.Time
	runs   [flightRuns]flightRun // batch n is at n % flightRuns
	next   uint64
	file   string // that was written; empty if none was
}

// flightRun is one batch.
type flightRun struct {
	seq                 uint64 // of its first Run
	hash                tensor.Hash
	at                  time.Duration // since the session was opened
	operations, fetched int           // operations -1: no program
	uploads, bytes      int
	sync                bool
}

// note remembers a batch, whose first Run is number seq.
func (f *flight) note(seq uint64, b *tensor.Batch) {
	r := &f.runs[f.next%flightRuns]
	f.next++
	*r = flightRun{seq: seq, at: time.Since(f.born), operations: -1, fetched: len(b.Fetch), uploads: len(b.Uploads), sync: b.Sync}
	if b.Program != nil {
		r.hash, r.operations = b.Hash, len(b.Program.Instrs)
	}
	for i := range b.Uploads {
		u := &b.Uploads[i]
		r.bytes += u.Shape.Elems() * u.DType.Size()
	}
}

// text returns the batches; acked is the last Run that was answered.
func (f *flight) text(acked uint64) string {
	var b strings.Builder
	first := f.next - min(f.next, flightRuns)
	fmt.Fprintf(&b, "%d batches in all, the last %d of them, oldest first; times are since the session was opened\n", f.next, f.next-first)
	for n := first; n < f.next; n++ {
		r := &f.runs[n%flightRuns]
		state := "answered"
		if r.seq > acked {
			state = "NOT ANSWERED"
		}
		fmt.Fprintf(&b, "%13.6fs  %-12s run #%d", r.at.Seconds(), state, r.seq)
		if r.operations >= 0 {
			fmt.Fprintf(&b, ", program %.8v of %d operations", r.hash, r.operations)
		}
		if r.uploads > 0 {
			fmt.Fprintf(&b, ", %d uploads of %d bytes", r.uploads, r.bytes)
		}
		if r.fetched > 0 {
			fmt.Fprintf(&b, ", %d values read", r.fetched)
		}
		if r.sync {
			b.WriteString(", waited for")
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// recorded returns err, the first error of its kind, with the name of a file that has the
// last batches. It is err alone without a folder, and before the first batch.
func (f *flight) recorded(e *Engine, err error) error {
	if f.folder == "" || f.next == 0 || f.file != "" {
		return err
	}
	path, errWrite := collective.WriteFlight(f.folder, "client", err, f.text(e.acked))
	if errWrite != nil {
		e.log.Warn("client: the last batches are not written down", "folder", f.folder, "err", errWrite)
		return err
	}
	f.file = path
	return fmt.Errorf("%w; this client's last batches are in %s", err, path)
}

// overdue returns err, of a batch. If its context's deadline has passed, the last batches
// are written down.
func (f *flight) overdue(e *Engine, err error) error {
	if f.folder != "" && e.err == nil && errors.Is(err, context.DeadlineExceeded) {
		return f.recorded(e, err)
	}
	return err
}
