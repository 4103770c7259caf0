package bench

import (
	"io"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster/client"
	"github.com/ringside-go/ringside/tensor/cluster/trace"
)

// maxTraceCost is how much longer a step may take while a trace of it is written.
const maxTraceCost = 1.05

// runTrace times the steps of runStep while a trace of client and worker is written, and
// on a cluster of which none is written. A trace begins before the steps of a turn and
// ends after them, both outside of the time that counts, so that nothing of it runs in
// the other side's turns. A build without tracing is another program: make turns compares
// the scenario step of both.
func runTrace(r *run) {
	t := must(findTrial("qwen_t64"))
	fresh := func(s *tensor.Session) *trainer {
		tr := newTrainer(s, t)
		tr.fresh = &t.Form
		return tr
	}
	plain := fresh(r.through(1, 1).sess)

	c := r.start(1, 1)
	o := client.Options{Name: "bench trace", Trace: client.NewEvents(trace.Events)}
	e := must(client.Dial(r.ctx, c.Addr(), &o))
	s := tensor.NewSession(e, nil)
	r.atEnd(s.Close)
	traced := fresh(s)

	var events, steps int
	block := max(r.work(200), 2)
	off := sampled("tracing off", "ms", 0, func(int) []float64 { return plain.each(r.ctx, block) })
	on := sampled("tracing on", "ms", 0, func(int) []float64 {
		m := must(client.NewMonitor(r.ctx, nil, c.Addr()))
		defer m.Close()
		rec := must(trace.Start(r.ctx, m, &trace.Options{Trace: io.Discard}))
		rec.Follow(e, &o)
		each := traced.each(r.ctx, block)
		check(rec.Stop())
		n, _, _, _ := rec.Events()
		events, steps = events+n, steps+block
		return each
	})
	r.measure(turns{rounds: r.rounds(45), warm: true}, off, on)
	r.single("events of a step", "events", float64(events)/float64(steps))
	r.atMost("trace_cost", ratio(on.series, off.series), maxTraceCost)
}
