package dispatcher

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/ringside-go/ringside/collective"
)

const (
	// flightEvents is the number of records that a flight remembers.
	flightEvents = 128

	// flightWrites is how many files may wait to be written, one of which is being
	// written.
	flightWrites = 8

	// flightLast is how long a dispatcher that ends waits for its files.
	flightLast = time.Second
)

// flight is a handler of log records that remembers the last ones from the level Info on,
// whatever level is logged, to be written down when a worker dies or does not answer.
type flight struct {
	slog.Handler        // what is logged
	folder       string // of the files
	events       *flightRing
	writes       *flightWriter
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

// recorded has the last events written down because of cause, and returns a text for
// errors that names the file. It waits for no disk. The text is empty if there is no
// folder, or too many files wait to be written.
func (f *flight) recorded(cause error) string {
	if f == nil {
		return ""
	}
	file := collective.NewFlightFile(f.folder, "dispatcher", cause, f.text())
	if !f.writes.begin(file, func(err error) {
		slog.New(f).Warn("the last events are not written down", "file", file.Path, "err", err)
	}) {
		slog.New(f).Warn("the last events are not written down: earlier files are not written yet", "folder", f.folder, "files", flightWrites)
		return ""
	}
	return "; the dispatcher's last events are in " + file.Path
}

// end waits for the files that are being written, for flightLast at most.
func (f *flight) end() {
	if f != nil {
		f.writes.end(flightLast)
	}
}

// flightWriter writes files apart from the session loop, one at a time: a disk may stall.
type flightWriter struct {
	write func(*collective.FlightFile) error
	slots chan struct{} // one is taken by every file that is not written yet
	disk  sync.Mutex    // held by the goroutine that writes
}

func newFlightWriter(write func(*collective.FlightFile) error) *flightWriter {
	return &flightWriter{write: write, slots: make(chan struct{}, flightWrites)}
}

// begin has a file written, and failed called if it cannot be. It returns false if too
// many wait already.
func (w *flightWriter) begin(file *collective.FlightFile, failed func(error)) bool {
	select {
	case w.slots <- struct{}{}:
	default:
		return false
	}
	go func() {
		defer func() { <-w.slots }()
		w.disk.Lock()
		defer w.disk.Unlock()
		if err := w.write(file); err != nil {
			failed(err)
		}
	}()
	return true
}

// end takes all slots, and so waits for all files, for d at most. No file is begun later.
func (w *flightWriter) end(d time.Duration) {
	late := time.After(d)
	for range cap(w.slots) {
		select {
		case w.slots <- struct{}{}:
		case <-late:
			return
		}
	}
}
