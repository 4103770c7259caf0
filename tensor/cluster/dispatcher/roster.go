package dispatcher

import (
	"slices"

	"github.com/ringside-go/ringside/ipc"
)

const (
	// coldLooks is how many idle peers, those that are not warm, a round looks at.
	// Each of 320 idle peers waits for 10 rounds at most.
	coldLooks = 32

	// warmRounds is for how many rounds a peer stays warm after it had something to
	// do: each of these rounds looks at it. A dispatcher without messages makes about
	// as many rounds before it sleeps.
	warmRounds = 1024
)

// roster holds the peers and chooses those that a round looks at: all warm ones, which
// had something to do lately, and some of the others in turn. So many peers that send
// nothing do not delay the others' messages. The last round before the dispatcher sleeps
// looks at all peers.
type roster struct {
	all   []*peer
	warm  []*peer // those of all that are looked at in each round
	first int     // index in warm of the peer that is served first
	next  int     // index in all of the next other peer
	gone  bool    // all and warm still hold a peer that is gone

	parking bool // the next round is the last one before the dispatcher sleeps
	look    []*peer

	// idlers are the last results of idle, by role. They are out of date if changed.
	changed bool
	idlers  map[ipc.Role]idlers
}

// idlers are the peers of a role without an open session or one to resume.
type idlers struct {
	n      int
	oldest *peer
}

// add adds a peer that has come.
func (r *roster) add(p *peer) {
	r.all = append(r.all, p)
	r.changed = true
	r.warmUp(p)
}

// warmUp has a peer looked at in each round for a while.
func (r *roster) warmUp(p *peer) {
	if p.warm == 0 {
		r.warm = append(r.warm, p)
	}
	p.warm = warmRounds
}

// round returns the peers that a round looks at. The slice is valid until the next call.
// The warm peers begin with a different one each time, so that it is not always the same
// peer that finds a queue full.
func (r *roster) round() []*peer {
	r.warm = slices.DeleteFunc(r.warm, func(p *peer) bool {
		if p.warm > 0 {
			p.warm--
		}
		return p.warm == 0
	})
	r.look = r.look[:0]
	if n := len(r.warm); n > 0 {
		r.first = (r.first + 1) % n
		r.look = append(append(r.look, r.warm[r.first:]...), r.warm[:r.first]...)
	}
	looks := min(coldLooks, len(r.all))
	if r.parking {
		looks = len(r.all)
	}
	r.parking = false
	for range looks {
		r.next = (r.next + 1) % len(r.all)
		if p := r.all[r.next]; p.warm == 0 {
			r.look = append(r.look, p)
		}
	}
	return r.look
}

// sweep removes the peers that are gone, also from the slice of the last round, which
// would keep their memory.
func (r *roster) sweep() {
	if !r.gone {
		return
	}
	r.gone, r.changed, r.idlers = false, true, nil
	clear(r.look[:cap(r.look)])
	isGone := func(p *peer) bool { return p.gone }
	r.all, r.warm = slices.DeleteFunc(r.all, isGone), slices.DeleteFunc(r.warm, isGone)
}

// idle counts the peers of a role that have no open session and wait to resume none, and
// returns the oldest of them.
func (r *roster) idle(role ipc.Role) (n int, oldest *peer) {
	if r.changed || r.idlers == nil {
		r.changed, r.idlers = false, map[ipc.Role]idlers{}
		for _, p := range r.all {
			if p.gone || p.claim != "" || p.session != nil && !p.session.over {
				continue
			}
			x := r.idlers[p.role]
			if x.n++; x.oldest == nil {
				x.oldest = p
			}
			r.idlers[p.role] = x
		}
	}
	x := r.idlers[role]
	return x.n, x.oldest
}
