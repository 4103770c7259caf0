package dispatcher

import (
	"cmp"
	"slices"

	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
)

const (
	keptTrainings = 8  // of runs whose processes are gone
	mostTrainings = 64 // in an answer
)

// trainings are the runs that controls tell of. A control has one run, in its peer.
type trainings struct {
	gone []*wire.Training // of controls that are gone, oldest first
	last uint64           // number of the newest run
}

// told keeps how far the run of a control is.
func (r *trainings) told(p *peer, t *wire.Training) {
	if p.training != nil {
		t.Session = p.training.Session
	} else {
		r.last++
		t.Session = r.last
	}
	p.training = t
}

// over keeps the run of a peer that is gone, if it has one.
func (r *trainings) over(p *peer) {
	if p.training == nil {
		return
	}
	p.training.Over = true
	r.gone = append(r.gone, p.training)
	if n := len(r.gone) - keptTrainings; n > 0 {
		r.gone = slices.Delete(r.gone, 0, n)
	}
	p.training = nil
}

// tell sends the runs of peers and of those that are gone, the newest of too many.
func (r *trainings) tell(to *peer, peers []*peer) {
	all := slices.Clone(r.gone)
	for _, p := range peers {
		if p.training != nil {
			all = append(all, p.training)
		}
	}
	slices.SortFunc(all, func(a, b *wire.Training) int { return cmp.Compare(a.Session, b.Session) })
	for _, t := range all[max(len(all)-mostTrainings, 0):] {
		to.send(wire.KindTraining, wire.Append(nil, t), t.Session, nil)
	}
}
