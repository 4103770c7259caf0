package dispatcher

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"sync"

	"github.com/ringside-go/ringside/collective"
)

// flightEvents is the number of records that a flight remembers.
const flightEvents = 128

// flight is a handler of log records that remembers the last ones from the level Info on,
// whatever level is logged, to be written down when a worker dies or does not answer.
type flight struct {
	slog.Handler        // what is logged
	folder       string // of the files
	events       *flightRing
}

// flightRing is the records. Listeners log in goroutines of their own.
type flightRing struct {
	mu   sync.Mutex
	last [flightEvents]slog.Record // record n is at n % flightEvents
	next uint64
}

// Enabled implements slog.Handler.
func (f *flight) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelInfo || f.Handler.Enabled(ctx, level)
}

// Handle implements slog.Handler.
func (f *flight) Handle(ctx context.Context, r slog.Record) error {
	if r.Level >= slog.LevelInfo {
		f.events.add(&r)
	}
	if !f.Handler.Enabled(ctx, r.Level) {
		return nil
	}
	return f.Handler.Handle(ctx, r)
}

// add remembers a record as it is now: its attributes are of peers that change and end,
// and would keep their memory.
func (e *flightRing) add(r *slog.Record) {
	now := slog.NewRecord(r.Time, r.Level, r.Message, r.PC)
	r.Attrs(func(a slog.Attr) bool {
		a.Value = a.Value.Resolve()
		now.AddAttrs(a)
		return true
	})
	e.mu.Lock()
	defer e.mu.Unlock()
	e.last[e.next%flightEvents] = now
	e.next++
}

// text returns the records, a line each.
func (f *flight) text() string {
	f.events.mu.Lock()
	defer f.events.mu.Unlock()
	first := f.events.next - min(f.events.next, flightEvents)
	var b bytes.Buffer
	fmt.Fprintf(&b, "%d events in all, the last %d of them, oldest first\n", f.events.next, f.events.next-first)
	h := slog.NewTextHandler(&b, &slog.HandlerOptions{Level: slog.LevelDebug})
	for n := first; n < f.events.next; n++ {
		// A buffer takes all.
		_ = h.Handle(context.Background(), f.events.last[n%flightEvents])
	}
	return b.String()
}

// recorded writes the last events down because of cause, and returns a text for errors
// that names the file; empty if there is none.
func (f *flight) recorded(cause error) string {
	if f == nil {
		return ""
	}
	path, err := collective.WriteFlight(f.folder, "dispatcher", cause, f.text())
	if err != nil {
		slog.New(f).Warn("the last events are not written down", "folder", f.folder, "err", err)
		return ""
	}
	return "; the dispatcher's last events are in " + path
}
