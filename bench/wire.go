package bench

import (
	"context"
	"crypto/rand"
	"errors"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/local"
	"github.com/ringside-go/ringside/net/tcp"
)

// maxCRCCost is how much longer a transfer may take with checksums than without.
const maxCRCCost = 1.05

// wireSizes are the bytes that each end sends.
var wireSizes = [...]struct {
	name  string
	bytes int
	reps  int // in a round
}{
	{"64B", 64, 500},
	{"64KB", 64 << 10, 200},
	{"1MB", 1 << 20, 40},
	{"16MB", 16 << 20, 5},
	{"64MB", 64 << 20, 2},
}

// runWire times exchanges between the two ends of a conn over loopback, where the
// kernel's copies are all that a transfer costs besides. Each end sends and receives at
// the same time.
// tcp_crc_cost is how much longer one takes with checksums, and tcp_tls_cost with TLS,
// beside one without either.
func runWire(r *run) {
	kinds := []struct {
		name      string
		transport *tcp.Transport
		tls       *ipc.TLS
	}{{"plain", tcp.NewUnchecked(), nil}, {"CRC", tcp.New(), nil}, {"TLS", tcp.New(), &ipc.TLS{}}}
	ends := make([][2]*wireEnd, len(kinds))
	secret := []byte(rand.Text())
	for i, k := range kinds {
		ends[i] = newWire(r, k.transport, &ipc.Options{Secret: secret, TLS: k.tls})
	}
	for _, size := range wireSizes {
		n := r.work(size.bytes)
		var sides []side
		for i, k := range kinds {
			a, b := ends[i][0], ends[i][1]
			a.grow(n)
			b.grow(n)
			sides = append(sides, sampled(k.name+" "+size.name, "µs", size.reps, func(reps int) []float64 {
				return r.samples(reps, micros, func() {
					other := make(chan error, 1)
					go func() { other <- b.exchange(r.ctx) }()
					check(errors.Join(a.exchange(r.ctx), <-other))
				})
			}))
		}
		r.measure(turns{rounds: r.rounds(7), warm: true}, sides...)
		r.atMost("tcp_crc_cost_"+size.name, ratio(sides[1].series, sides[0].series), maxCRCCost)
		r.single("tcp_tls_cost_"+size.name, "ratio", ratio(sides[2].series, sides[0].series))
	}
}

// wireEnd is one end of a conn, with what it sends and receives.
type wireEnd struct {
	bulk    ipc.Bulk
	waiter  ipc.Waiter
	out, in []byte
}

// newWire makes a conn whose ends are in this process, until the scenario ends.
func newWire(r *run, t *tcp.Transport, o *ipc.Options) (ends [2]*wireEnd) {
	for i := range ends {
		w := must(local.NewWaiter())
		r.atEnd(func() error { w.Close(); return nil })
		ends[i] = &wireEnd{waiter: w}
	}
	there, here := *o, *o
	there.Waiter, here.Waiter = ends[1].waiter, ends[0].waiter
	l := must(t.Listen("127.0.0.1:0", &there))
	r.atEnd(l.Close)
	for i, c := range []ipc.Conn{must(t.Dial(r.ctx, l.Addr(), &here)), must(l.Accept(r.ctx))} {
		r.atEnd(c.Close)
		ends[i].bulk = c.Features().Bulk
	}
	return ends
}

// grow has the end exchange n bytes from now on.
func (e *wireEnd) grow(n int) {
	e.out, e.in = make([]byte, n), make([]byte, n)
	for i := range e.out {
		e.out[i] = byte(i % 251)
	}
}

// exchange sends out and receives into in.
func (e *wireEnd) exchange(ctx context.Context) error {
	err := errors.Join(e.bulk.BeginSend(1, e.out), e.bulk.BeginRecv(1, e.in))
	if err != nil {
		return err
	}
	sent, received := false, false
	var errSend, errRecv error
	err = e.waiter.Wait(ctx, func() bool {
		if !sent {
			sent, errSend = e.bulk.ProgressSend()
		}
		if !received {
			_, received, errRecv = e.bulk.ProgressRecv()
		}
		return sent && received || errSend != nil || errRecv != nil
	})
	return errors.Join(err, errSend, errRecv)
}
