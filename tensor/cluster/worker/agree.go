package worker

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/ringside-go/ringside/collective"
	"github.com/ringside-go/ringside/collective/element"
	"github.com/ringside-go/ringside/collective/plan"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
	"github.com/ringside-go/ringside/tensor/shard"
)

// At the end of a batch the session's workers vote: it failed on all of them or on none. A vote is an all-reduce of one byte. Where the
// last thing that they do is an all-reduce of a few bytes, such as of a sum that somebody reads, it needs no meeting of its own:
// it is one element more of that, of the same type,
//
//	op         all is well   some worker failed
//	sum, max   0             not 0
//	min, prod  1             0
//
// and what the all-reduce multiplies by (a mean does) leaves that so.

// agreedError is a failure of some worker of the session, as all of them tell it.
type agreedError struct{ wire.Done }

func (e *agreedError) Error() string { return e.Text }

// voteBytes is what a worker says about its failure.
const voteBytes = 2048

// agree is nil if err is nil on all workers of the session; otherwise it is the failure of the lowest rank that has one, the same
// error on all. errTeam when they can't agree.
func (s *session) agree(ctx context.Context, err error) error {
	for _, g := range s.voters() {
		var vote [1]byte
		if err != nil {
			vote[0] = 1
		}
		r := collective.Raw{Kind: plan.AllReduce, Op: element.Max, DType: element.U8, Scale: 1, Dst: vote[:], Src: vote[:]}
		if err := r.Do(ctx, g); err != nil {
			return fmt.Errorf("%w: %w", errTeam, err)
		}
		if vote[0] != 0 {
			if err = s.whoFailed(ctx, g, err); ends(err) {
				return err
			}
		}
	}
	return err
}

// whoFailed is the failure of the lowest rank of g that has one, after a vote that says that there is one. err is this worker's.
func (s *session) whoFailed(ctx context.Context, g *collective.Group, err error) error {
	n := g.Size()
	mine, all := make([]byte, voteBytes), make([]byte, voteBytes*n)
	copy(mine, s.ballot(err))
	counts := make([]int, n)
	for i := range counts {
		counts[i] = voteBytes
	}
	r := collective.Raw{Kind: plan.AllGather, DType: element.U8, Dst: all, Src: mine, Recv: counts}
	if err := r.Do(ctx, g); err != nil {
		return fmt.Errorf("%w: %w", errTeam, err)
	}
	for i := range n {
		if b := all[i*voteBytes:][:voteBytes]; b[0]|b[1] != 0 {
			agreed := new(agreedError)
			if err := agreed.read(b); err != nil {
				return err
			}
			return agreed
		}
	}
	return fmt.Errorf("%w: a vote that a batch failed, and nobody says why", errTeam)
}

// rideBytes is up to what size the all-reduce of a value takes the vote along: it copies the value twice.
const rideBytes = 4 << 10

// rides says whether the vote of the session's workers may be an element of the collective that c, a redistribution, consists of.
func (s *session) rides(c *carried) bool {
	first := c.steps[0]
	if len(c.steps) != 2 || first.Kind != shard.Start || !first.alone || first.Collective.Kind != plan.AllReduce || len(first.Collective.Moves) != 1 {
		return false
	}
	voters := s.voters()
	return len(voters) == 1 && voters[0] == s.groups[first.Collective.Dim] &&
		first.Collective.Moves[0].InShape.Elems()*first.Collective.DType.Size() <= rideBytes
}

// sumAndAgree carries out c, of which that is so, and is carry and agree in one. The result exists before the workers meet, so that
// nothing can go wrong afterwards.
func (s *session) sumAndAgree(ctx context.Context, c *carried, input uint64, failed error) (made uint64, err error) {
	step := &c.steps[0]
	x, m := step.Collective, &step.Collective.Moves[0]
	size, n := x.DType.Size(), m.InShape.Elems()*x.DType.Size()
	var u underway
	if failed == nil {
		failed = s.buffers(&u, input, n, n, false)
	}
	room := slices.Grow(s.ballotBox[:0], n+size)[:n+size]
	s.ballotBox = room
	var result []byte
	if failed == nil {
		result = bytesOf(u.dst, n)
		copy(room, bytesOf(u.src, n))
		copy(result, room) // until then it is this worker's part: bytes of a bool are looked at
		made, failed = s.keep(x.DType, m.OutShape, u.dst)
		u.dst = nil
	}
	u.release()
	vote(room[n:], x.Op, x.DType, failed != nil)
	s.calls++
	u.moved = sent(x, m, s.mesh.Coord(s.place, x.Dim))
	s.moved += uint64(u.moved)
	u.began = s.w.watch.now()
	r := collective.Raw{Kind: x.Kind, Op: x.Op, DType: planType(x.DType), Scale: x.Scale, Src: room, Dst: room}
	g := s.groups[x.Dim]
	asked := time.Now()
	err = r.Do(ctx, g)
	s.took += time.Since(asked)
	s.waited(x.Kind, &u, u.began)
	switch {
	case err != nil:
		err = fmt.Errorf("%w: %v: %w", errTeam, x.Kind, err)
	case voted(room[n:], x.Op):
		err = s.whoFailed(ctx, g, failed)
	default:
		copy(result, room)
		return made, nil
	}
	s.space.Free(made)
	return 0, err
}

// one makes zeroed bytes a 1 of d.
func one(dst []byte, d tensor.DType) {
	switch d {
	case tensor.F64:
		dst[6], dst[7] = 0xf0, 0x3f
	case tensor.F32:
		dst[2], dst[3] = 0x80, 0x3f
	case tensor.F16:
		dst[1] = 0x3c
	case tensor.BF16:
		dst[0], dst[1] = 0x80, 0x3f
	default:
		dst[0] = 1
	}
}

// vote makes dst, an element of d, what a worker gives to a fold.
func vote(dst []byte, op element.Reduction, d tensor.DType, failed bool) {
	clear(dst)
	if failed != (op == element.Min || op == element.Prod) {
		one(dst, d)
	}
}

// voted says whether somebody has failed, by what came out.
func voted(x []byte, op element.Reduction) bool {
	zero := !slices.ContainsFunc(x, func(b byte) bool { return b != 0 })
	return zero == (op == element.Min || op == element.Prod)
}

// ballot is err as a Done behind its length; nothing for nil.
func (s *session) ballot(err error) []byte {
	if err == nil {
		return nil
	}
	var d wire.Done
	s.explain(&d, err)
	for d.Size() > voteBytes-2 {
		d.Text, d.Inputs = d.Text[:len(d.Text)/2], d.Inputs[:len(d.Inputs)/2]
	}
	b := make([]byte, 2, voteBytes)
	b = wire.AppendDone(b, &d)
	b[0], b[1] = byte(len(b)-2), byte((len(b)-2)>>8)
	return b
}

func (e *agreedError) read(b []byte) error {
	n := int(b[0]) | int(b[1])<<8
	if n > len(b)-2 {
		return fmt.Errorf("%w: a failure of %d bytes", errTeam, n)
	}
	if err := wire.ParseDone(b[2:2+n], &e.Done); err != nil {
		return fmt.Errorf("%w: %w", errTeam, err)
	}
	return nil
}
