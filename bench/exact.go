package bench

import (
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster/client"
	"github.com/ringside-go/ringside/tensor/shard/config"
)

const (
	exactParts   = 12
	exactWorkers = 2
	exactBatch   = 2 * exactParts // two examples for each part
)

// runExact times training steps of two workers whose batches are cut in parts, so that
// their bits do not depend on the number of workers, beside ordinary steps of two workers
// with half of a batch each.
func runExact(r *run) {
	plain, exact := r.through(exactWorkers, 1), r.exactly(exactParts, exactWorkers)
	plain.name, exact.name = "ordinary", count(exactParts, "part")
	worst := 0.0
	for _, t := range inBatches(exactBatch) {
		if r.Only != "" && r.Only != t.Name {
			continue
		}
		within(t.Name, func() {
			n := max(r.work(t.steps/4), 1)
			var sides []side
			for _, g := range []*rig{plain, exact} {
				tr := newTrainer(g.sess, &t)
				defer tr.free()
				sides = append(sides, tr.turn(r, t.Name+", "+g.name, n))
			}
			r.measure(turns{rounds: r.rounds(5), warm: true}, sides...)
			worst = max(worst, ratio(sides[1].series, sides[0].series))
		})
	}
	r.single("exact_cost", "ratio", worst)
}

// exactly makes a session on a new cluster of so many workers of one thread, with batches
// in so many parts.
func (r *run) exactly(parts, workers int) *rig {
	c := r.start(workers, 1)
	layout := config.DataParallel(workers)
	layout.Exact = parts
	e := must(client.Dial(r.ctx, c.Addr(), &client.Options{Config: layout}))
	s := tensor.NewSession(e, nil)
	r.atEnd(s.Close)
	return &rig{name: "cluster", sess: s, client: e, cluster: c}
}
