package worker

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/ringside-go/ringside/collective"
	"github.com/ringside-go/ringside/collective/element"
	"github.com/ringside-go/ringside/collective/protocol"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
	"github.com/ringside-go/ringside/tensor/shard"
)

// At the end of a batch the session's workers vote: it failed on all of them or on none.
// A vote is an all-reduce of one byte. If the last step of a batch is an all-reduce of a
// few bytes, such as of a sum that the client reads, the vote needs no call of its own:
// it is one more element of that value, of the same type,
//
//	op         no worker failed   some worker failed
//	sum, max   0                  not 0
//	min, prod  1                  0
//
// and the factor by which the all-reduce multiplies (a mean does) does not change that.

const (
	// ballotBytes bounds the text by which a worker reports its failure.
	ballotBytes = 2048

	// rideBytes is the largest value whose all-reduce takes the vote along: the value is
	// copied twice then.
	rideBytes = 4 << 10
)

// agree returns nil if err is nil on all workers of the session, otherwise the same error
// on all: the failure of the lowest rank of which no result exists, or the failures of
// instructions on all workers. It returns errTeam if they cannot agree.
func (c *carrier) agree(ctx context.Context, err error) error {
	for _, g := range c.voters() {
		var vote [1]byte
		if err != nil {
			vote[0] = 1
		}
		r := collective.Raw{Kind: protocol.AllReduce, Op: element.Max, DType: element.U8, Scale: 1, Dst: vote[:], Src: vote[:]}
		if err := c.call(ctx, &r, g); err != nil {
			return fmt.Errorf("%w: %w", errTeam, err)
		}
		if vote[0] != 0 {
			if err = c.findFailure(ctx, g, err); ends(err) {
				return err
			}
		}
	}
	return err
}

// findFailure returns the failure on which the workers of g agree, after a vote found
// that there is one. err is this worker's.
func (c *carrier) findFailure(ctx context.Context, g *collective.Group, err error) error {
	n := g.Size()
	mine, all := make([]byte, ballotBytes), make([]byte, ballotBytes*n)
	copy(mine, appendBallot(nil, err))
	counts := make([]int, n)
	for i := range counts {
		counts[i] = ballotBytes
	}
	r := collective.Raw{Kind: protocol.AllGather, DType: element.U8, Dst: all, Src: mine, Recv: counts}
	if err := c.call(ctx, &r, g); err != nil {
		return fmt.Errorf("%w: %w", errTeam, err)
	}
	var some someFailed
	for i := range n {
		if b := all[i*ballotBytes:][:ballotBytes]; b[0]|b[1] != 0 {
			agreed := new(agreedError)
			if err := agreed.parse(b); err != nil {
				return err
			}
			if !agreed.Rest {
				return agreed
			}
			some.join(agreed)
		}
	}
	if len(some.all) > 0 {
		return &some
	}
	return fmt.Errorf("%w: a vote found that a batch failed, and no worker reports a failure", errTeam)
}

// join adds the failures that a worker reports, in the order of the instructions.
func (e *someFailed) join(d *agreedError) {
	add := func(x *agreedError) {
		i, found := slices.BinarySearchFunc(e.all, x.At, func(y *agreedError, at uint32) int { return cmp.Compare(y.At, at) })
		if !found {
			e.all = slices.Insert(e.all, i, x)
		}
	}
	for _, m := range d.More {
		add(&agreedError{wire.Done{Code: m.Code, Text: m.Text, At: m.At, Op: m.Op, Inputs: m.Inputs}})
	}
	d.More = nil
	add(d)
}

// rides reports whether the vote may be an element of the collective that r, a
// redistribution, consists of.
func (c *carrier) rides(r *rankPlan) bool {
	first := r.steps[0]
	if len(r.steps) != 2 || first.Kind != shard.Start || !first.inline || first.Collective.Kind != protocol.AllReduce || len(first.Collective.Moves) != 1 {
		return false
	}
	voters := c.voters()
	return len(voters) == 1 && voters[0] == c.groups[first.Collective.Dim] &&
		first.Collective.Moves[0].InShape.Elems()*first.Collective.DType.Size() <= rideBytes
}

// sumAndAgree carries out a redistribution for which rides is true: it is carry and agree
// in one call of the group. The result has its memory before the call, so that nothing
// can fail after it.
func (c *carrier) sumAndAgree(ctx context.Context, r *rankPlan, input uint64, failed error) (made uint64, err error) {
	x := r.steps[0].Collective
	m := &x.Moves[0]
	size, n := x.DType.Size(), m.InShape.Elems()*x.DType.Size()
	room := slices.Grow(c.ballot[:0], n+size)[:n+size]
	c.ballot = room
	if failed == nil {
		var src []byte
		src, failed = c.space.Read(input, 0, n)
		copy(room, src)
	}
	if failed == nil {
		made = c.newID()
		failed = c.space.Make(made, x.DType, m.OutShape)
	}
	writeVote(room[n:], x.Op, x.DType, failed != nil)
	var u movement
	g := c.groups[x.Dim]
	c.sends(&u, g, sentBytes(x, m, c.mesh.Coord(c.place, x.Dim)))
	raw := collective.Raw{Kind: x.Kind, Op: x.Op, DType: elementType(x.DType), Scale: x.Scale, Src: room, Dst: room}
	asked := time.Now()
	err = c.call(ctx, &raw, g)
	c.took += time.Since(asked)
	c.waited(x.Kind, &u, u.began)
	switch {
	case err != nil:
		err = fmt.Errorf("%w: %v: %w", errTeam, x.Kind, err)
	case readVote(room[n:], x.Op):
		err = c.findFailure(ctx, g, failed)
	default:
		if err = c.space.Fill(made, room[:n]); err == nil {
			return made, nil
		}
		err = fmt.Errorf("%w: %w: %w", errProtocol, errInternal, err)
	}
	c.space.Free(made)
	return 0, err
}

// writeOne makes zeroed bytes a 1 of d.
func writeOne(dst []byte, d tensor.DType) {
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

// writeVote makes dst, an element of d, the vote of a worker in a reduction by op.
func writeVote(dst []byte, op element.Reduction, d tensor.DType, failed bool) {
	clear(dst)
	if failed != (op == element.Min || op == element.Prod) {
		writeOne(dst, d)
	}
}

// readVote reports whether some worker failed, from the result of the reduction.
func readVote(x []byte, op element.Reduction) bool {
	zero := !slices.ContainsFunc(x, func(b byte) bool { return b != 0 })
	return zero == (op == element.Min || op == element.Prod)
}

// appendBallot appends err as a Done after its length, at most ballotBytes; nothing for
// nil.
func appendBallot(dst []byte, err error) []byte {
	if err == nil {
		return dst
	}
	var d wire.Done
	explain(&d, err)
	b := wire.Append(nil, &d)
	if len(b) > ballotBytes-2 {
		for i := range d.More { // the failures are told without their reasons
			d.More[i].Text, d.More[i].Inputs = "", ""
		}
		if b = wire.Append(b[:0], &d); len(b) > ballotBytes/2 && len(d.More) > 0 {
			d.Rest, d.More = false, nil // too many: the program fails as a whole
		}
	}
	for len(b) > ballotBytes-2 {
		d.Text, d.Inputs = d.Text[:len(d.Text)/2], d.Inputs[:len(d.Inputs)/2]
		b = wire.Append(b[:0], &d)
	}
	return append(append(dst, byte(len(b)), byte(len(b)>>8)), b...)
}

// parse reads what appendBallot wrote.
func (e *agreedError) parse(b []byte) error {
	n := int(b[0]) | int(b[1])<<8
	if n > len(b)-2 {
		return fmt.Errorf("%w: a failure of %d bytes, at most %d", errTeam, n, len(b)-2)
	}
	if err := wire.Parse(b[2:2+n], &e.Done); err != nil {
		return fmt.Errorf("%w: %w", errTeam, err)
	}
	return nil
}
