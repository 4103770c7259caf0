package worker

import (
	"context"
	"fmt"
	"slices"

	"github.com/ringside-go/ringside/collective"
	"github.com/ringside-go/ringside/collective/plan"
	"github.com/ringside-go/ringside/shm"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
	"github.com/ringside-go/ringside/tensor/shard"
	"github.com/ringside-go/ringside/tensor/shard/config"
)

// A session may have stages: sets of its workers, each with a mesh of its own, that run different parts of a program (a
// pipeline). All workers still get all messages and keep the books of all values: of each its stage, and how it lies on the mesh of
// that. A worker has parts of what is on its own stage, and nothing of the rest.
//
// Between stages go transfers from one worker to another. Two workers have a group of their own for each direction, a pipe, in which
// there is nothing but these transfers, in the order of the plan at both ends.
//
//	            pipe 0 -> 1
//	worker 0 ═════════════════▶ worker 1      activations
//	         ◀═════════════════               gradients
//	            pipe 1 -> 0
//
// # No deadlock
//
// Starting a transfer waits for nobody: its pipe carries it out beside the programs, after what was started on that pipe before. So a
// worker waits in two places, for a transfer to arrive that it needs and for one of its own to be taken. Both ends of a pipe start the
// same transfers in the same order, so the first one of a pipe that has not ended ends as soon as both have started it. Of
// all waits under way look at the one whose transfer the plan has first. The other end has that transfer before it in its own steps, or
// has started it; what keeps it from getting there is a wait for a transfer that the plan has earlier, against the choice, or
// a collective of its stage, whose members are kept from it by nothing else (see package shard). So it comes, and the wait ends.

// stagesOf is the config's stages as package shard calls them.
func stagesOf(c *config.Config) []shard.Stage {
	var out []shard.Stage
	for _, s := range c.Stages() {
		out = append(out, shard.Stage{Mesh: s.Mesh, Ranks: s.Workers})
	}
	return out
}

// groupAll is the number of the group of all workers. The dims of meshes have the numbers before; pipes those that follow.
const groupAll = shard.MaxDims

// groupLead is the number under which the first worker is offered conns.
const groupLead = wire.MaxMeetGroups - 1

// pipeNumber is the number of a pipe, by who sends and who receives.
func (t *team) pipeNumber(pair [2]int) int { return groupAll + 1 + pair[0]*t.size() + pair[1] }

// meets says whether this worker is in the group that another one speaks about: what is said, all are told.
func (t *team) meets(rank, number int) bool {
	switch n := number - groupAll - 1; {
	case number == groupLead:
		return t.rank == 0
	case number < len(t.mesh):
		return slices.ContainsFunc(t.mesh.Group(t.place, number), func(i int) bool { return t.stages[t.stage].Ranks[i] == rank })
	case n >= 0:
		return n%t.size() == t.rank || n/t.size() == t.rank
	}
	return number == groupAll
}

// connectStages makes the group of all workers, and this worker's pipes: those of the pair with the lowest ranks first, as all do.
func (t *team) connectStages(group func(number int, ranks []int) (*collective.Group, error)) (err error) {
	all := make([]int, t.size())
	for r := range all {
		all[r] = r
	}
	if t.all, err = group(groupAll, all); err != nil {
		return err
	}
	for low := range all {
		for high := low + 1; high < len(all); high++ {
			if low != t.rank && high != t.rank {
				continue
			}
			if err := t.connectPair(low, high, group); err != nil {
				return err
			}
		}
	}
	return nil
}

// connectPair makes the pipes between two workers, which are in the group by who sends and who receives.
func (t *team) connectPair(low, high int, group func(number int, ranks []int) (*collective.Group, error)) (err error) {
	for _, pair := range [][2]int{{low, high}, {high, low}} {
		if !t.piped(pair) {
			continue
		}
		if t.pipes[pair], err = group(t.pipeNumber(pair), pair[:]); err != nil {
			return err
		}
	}
	return nil
}

// piped says whether plans have transfers from the first of a pair of workers to the second: what another stage needs is sent to each of
// its workers by one of the stage that has it, rank by rank or by these in turn (shard.RewriteStages).
func (t *team) piped(pair [2]int) bool {
	stageOf := func(r int) int {
		return slices.IndexFunc(t.stages, func(st shard.Stage) bool { return slices.Contains(st.Ranks, r) })
	}
	a, b := stageOf(pair[0]), stageOf(pair[1])
	if a == b {
		return false
	}
	from := t.stages[a].Ranks
	return from[slices.Index(t.stages[b].Ranks, pair[1])%len(from)] == pair[0]
}

// voters are the groups in which the session's workers agree, one after another: of all workers, or of those along each dim of their mesh.
func (t *team) voters() []*collective.Group {
	if t.all != nil {
		return []*collective.Group{t.all}
	}
	return slices.DeleteFunc(slices.Clone(t.groups), func(g *collective.Group) bool { return g == nil })
}

// stagedPlan is planOf where there are several stages.
func (s *session) stagedPlan(p *program, ins []*placed) (*carried, error) {
	s.key = s.key[:0]
	inputs := make([]shard.StagedLayout, len(ins))
	for i, v := range ins {
		inputs[i] = shard.StagedLayout{Stage: shard.AnyStage}
		if v.lies {
			inputs[i] = shard.StagedLayout{Stage: v.stage, Layout: v.layout}
		}
		n := uint16(inputs[i].Stage + 1)
		s.key = appendLayout(append(s.key, byte(n), byte(n>>8)), inputs[i].Layout)
	}
	c := p.plans[string(s.key)]
	if c == nil {
		plan, err := shard.PlaceStages(p.parsed, s.stages, s.of, inputs, &shard.Options{Signals: s.hints})
		if err != nil {
			return nil, fmt.Errorf("%w: %w", tensor.ErrProgram, err)
		}
		c = s.plan(p, plan, s.rank, s.stage)
	}
	for i, v := range ins {
		if !v.lies {
			v.stage, v.layout, v.lies = c.plan.Inputs[i].Stage, c.plan.Inputs[i].Layout, true
		}
	}
	return c, nil
}

// transfer starts sending a value to a worker of another stage, or receiving one.
func (s *session) transfer(ctx context.Context, c *shard.Collective, ids []uint64, failed error) ([]underway, error) {
	m, u := &c.Moves[0], &underway{began: s.w.watch.now()}
	pipe, size := s.pipes[[2]int(c.Group)], c.DType.Size()
	if c.Kind == plan.Recv {
		n := m.OutShape.Elems() * size
		if failed == nil && n > 0 {
			if u.dst, failed = s.w.dev.Arena().Alloc(n); failed != nil {
				failed = fmt.Errorf("%w: %w", tensor.ErrNoSpace, failed)
			}
		}
		u.work = collective.RecvAsync(ctx, pipe, bytesOr(u.dst, n), 0)
		return []underway{*u}, failed
	}
	n := m.InShape.Elems() * size
	if failed == nil {
		failed = s.buffers(u, ids[m.In], n, 0, false)
	}
	s.calls++
	u.moved = int64(n)
	s.moved += uint64(n)
	u.work = collective.SendAsync(ctx, pipe, bytesOr(u.src, n), 1)
	return []underway{*u}, failed
}

// bytesOr are the first n of a block, or n that mean nothing if there is none.
func bytesOr(b *shm.Block, n int) []byte {
	if b == nil {
		return make([]byte, n)
	}
	return b.Bytes()[:n]
}
