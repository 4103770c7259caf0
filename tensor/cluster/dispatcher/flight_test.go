package dispatcher

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/ringside-go/ringside/collective"
	"github.com/ringside-go/ringside/ipc"
)

// FlightWrites is flightWrites.
const FlightWrites = flightWrites

// StallFlight has the disk stall that a dispatcher writes its last events to, until a
// channel is closed. It is called before Serve.
func StallFlight(d *Dispatcher, until <-chan struct{}) {
	d.flight.writes = newFlightWriter(func(f *collective.FlightFile) error {
		<-until
		return f.Write()
	})
}

// TestFlightEvents: what is remembered is what was logged from the level Info on, peers
// as they were then, warnings about them too; of more events the last ones.
func TestFlightEvents(t *testing.T) {
	var logged strings.Builder
	d, err := New(&Options{Flight: t.TempDir(), Logger: slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	if err != nil {
		t.Fatal(err)
	}
	p := &peer{role: ipc.RoleClient, who: ipc.Peer{Name: "before"}}
	d.log.Info("came", "client", p)
	d.warnings.Warn("protocol", "peer broke the protocol", "peer", p)
	p.who.Name = "after"
	for range 2 * flightEvents {
		d.log.Debug("detail", "peer", p)
	}
	if n := strings.Count(logged.String(), "msg=detail"); n != 2*flightEvents {
		t.Errorf("%d details are logged, expected %d", n, 2*flightEvents)
	}
	text := d.flight.text()
	for _, want := range []string{"2 events in all, the last 2 of them", "msg=came client.role=client client.name=before", `msg="peer broke the protocol" peer.role=client peer.name=before`} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	for range flightEvents {
		d.log.Info("more")
	}
	if text := d.flight.text(); strings.Contains(text, "msg=came") || strings.Count(text, "msg=more") != flightEvents {
		t.Errorf("expected the last %d events:\n%s", flightEvents, text)
	}
}
