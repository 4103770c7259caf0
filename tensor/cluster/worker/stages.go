package worker

import (
	"slices"

	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
	"github.com/ringside-go/ringside/tensor/shard"
	"github.com/ringside-go/ringside/tensor/shard/config"
)

// A session may have stages: sets of its workers, each with a mesh of its own, that run
// different parts of a program (a pipeline). All workers still get all messages and keep
// the books of all values: the stage of each, and its layout on the stage's mesh. A
// worker has parts of the values of its own stage, and nothing of the others.
//
// Values move between stages by transfers from one worker to another. Two workers have a
// group of their own for each direction, a pipe. It carries these transfers alone, in the
// order of the plan at both ends.
//
//	            pipe 0 -> 1
//	worker 0 ═════════════════▶ worker 1      activations
//	         ◀═════════════════               gradients
//	            pipe 1 -> 0
//
// # No deadlock
//
// Starting a transfer does not wait: its pipe carries it out beside the programs, after
// the transfers that were started on the pipe before. A worker waits in two places, for a
// transfer to arrive and for one of its own to be received.
//
//  1. Both ends of a pipe start the same transfers in the same order. So the first
//     transfer of a pipe that has not ended ends as soon as both ends have started it.
//  2. Of all waits under way take the one whose transfer comes first in the plan. The
//     other end has started that transfer, or has it before it in its own steps.
//  3. If the other end has started it, the wait ends. Otherwise the other end waits for
//     something. Not for a transfer, which would be earlier in the plan; so for a
//     collective of its own stage, which all its members reach (see package shard).
//  4. So the collective ends, the other end starts the transfer, and the wait ends.
//
// This holds for values that go from GPU to GPU, too: the two ends meet in the pipe from
// a goroutine beside the programs (link), and devices wait only for work that the host
// has given to one before.

// topology is the ranks, stages and meshes of a session's workers as one of them sees
// them.
type topology struct {
	rank   int           // of this worker among those of the session
	stages []shard.Stage // of these
	stage  int           // this worker's,
	mesh   shard.Mesh    // its mesh,
	place  int           // and this worker's rank in that
}

func newTopology(stages []shard.Stage, rank int) topology {
	t := topology{rank: rank, stages: stages}
	for k, st := range stages {
		if i := slices.Index(st.Ranks, rank); i >= 0 {
			t.stage, t.mesh, t.place = k, st.Mesh, i
		}
	}
	return t
}

// stagesOf returns the config's stages.
func stagesOf(c *config.Config) []shard.Stage {
	var out []shard.Stage
	for _, s := range c.Stages() {
		out = append(out, shard.Stage{Mesh: s.Mesh, Ranks: s.Workers})
	}
	return out
}

// size returns the number of the session's workers.
func (t *topology) size() (n int) {
	for _, st := range t.stages {
		n += len(st.Ranks)
	}
	return n
}

// Numbers of groups in Meet messages. The groups along the dims of meshes have the
// numbers before groupAll, pipes those after it.
const (
	groupAll  = shard.MaxDims          // all workers
	groupLead = wire.MaxMeetGroups - 1 // no group: offers of connections
)

// pipeNumber returns the number of a pipe, by its sender and receiver.
func (t *topology) pipeNumber(pair [2]int) int { return groupAll + 1 + pair[0]*t.size() + pair[1] }

// concerns reports whether this worker needs a Meet message of another: all are sent to
// all.
func (t *topology) concerns(rank, number int) bool {
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

// pairs returns the senders and receivers of this worker's pipes, those with the lowest
// ranks first.
func (t *topology) pairs() (out [][2]int) {
	for low := range t.size() {
		for high := low + 1; high < t.size(); high++ {
			if low != t.rank && high != t.rank {
				continue
			}
			for _, pair := range [][2]int{{low, high}, {high, low}} {
				if t.piped(pair) {
					out = append(out, pair)
				}
			}
		}
	}
	return out
}

// piped reports whether plans have transfers from the first worker of a pair to the
// second. Each worker of a stage receives a value from one worker of the stage that has
// it: the one of the same place in its stage, modulo the number of workers there
// (shard.RewriteStages).
func (t *topology) piped(pair [2]int) bool {
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
