package ipctest

import (
	"context"
	"log/slog"
	"testing"
	"time"
)

// Warnings checks that events which peers can cause at will neither fill a log nor get
// lost. begin makes a server that logs to log; provoke makes it log one warning of one
// kind, for any peer i; end closes it.
func Warnings(t *testing.T, begin func(log *slog.Logger) (provoke func(i int), end func())) {
	t.Helper()
	const n = 40
	// others may say something of these peers as well, at level Debug
	log := make(records, 16*n)
	provoke, end := begin(slog.New(log))
	for i := range n {
		provoke(i)
	}
	var what string
	var warned, whole, counted int
	take := func(r slog.Record) {
		count := 0
		r.Attrs(func(a slog.Attr) bool {
			if a.Key == "count" {
				count = int(a.Value.Int64())
			}
			return true
		})
		switch {
		case count > 0:
			counted += count
		case r.Level == slog.LevelWarn:
			what = r.Message
			warned, whole = warned+1, whole+1
		case r.Level == slog.LevelDebug && r.Message == what:
			whole++
		}
	}
	timeout := time.After(time.Minute)
	for whole < n {
		select {
		case r := <-log:
			take(r)
		case <-timeout:
			t.Fatalf("%d of %d are logged, be it at level Debug", whole, n)
		}
	}
	end()
	for len(log) > 0 {
		take(<-log)
	}
	if warned == 0 || warned > n/2 || warned+counted != n {
		t.Errorf("%d peers: %d warnings, and %d that are counted in others; expected the first few, and the rest counted", n, warned, counted)
	}
}

// records is a handler that keeps what is logged.
type records chan slog.Record

func (r records) Enabled(context.Context, slog.Level) bool { return true }

func (r records) Handle(_ context.Context, rec slog.Record) error {
	r <- rec
	return nil
}

func (r records) WithAttrs([]slog.Attr) slog.Handler { return r }
func (r records) WithGroup(string) slog.Handler      { return r }
