// Package shard turns one program into programs for several workers. It is pure: it
// computes on descriptions of tensors and does no I/O. Package worker carries its plans
// out.
//
// # Placements
//
// Workers form a [Mesh] of one dim or two (data x model). A [Layout] says for each dim of
// the mesh how a tensor lies along it:
//
//	Replicate      every rank has the whole tensor
//	Shard(d)       rank i has the i-th chunk of dim d; of n rows on p ranks the first n%p
//	               ranks have one more (10 on 4: 3 3 2 2), so that no two differ by more
//	               than one; ranks from the n-th on have none
//	Partial(op)    every rank has a term of the tensor's shape; their sum, mean, max, min
//	               or product is the tensor
//
// If both dims of a mesh shard one dim of a tensor, the first dim of the mesh cuts it and
// the second cuts the pieces.
//
// # Rules
//
// Every operation has rules (rules_*.go). A rule lists placements of the operands under
// which the ranks can run the operation on their parts, and the placement of the result.
// [Rewrite] processes a program in order and takes the cheapest rule for each instruction
// (choose.go). If an operand has another placement, it is moved. Each rank sends this
// part of the tensor's bytes:
//
//	Partial -> Replicate   all-reduce       2(p-1)/p
//	Partial -> Shard       reduce-scatter    (p-1)/p
//	Shard -> Replicate     all-gather        (p-1)/p
//	Shard(a) -> Shard(b)   all-to-all        (p-1)/p^2
//	Replicate -> Shard     a local slice     0
//	Replicate -> Partial   zeros on all ranks but the first: 0
//
// A sum over a sharded dim is Partial, and stays Partial through linear operations until
// an operation that is not linear needs its value. Data parallelism follows: with a batch
// that is Shard(0) and parameters that are Replicate, gradients are Partial, and the
// optimizer's need for their value is the all-reduce. If the optimizer's state is
// Shard(0), the choice by cost gives a reduce-scatter, an update of shards, and an
// all-gather of the parameter (ZeRO-1: Rajbhandari et al. 2020). A product of matrices
// that are sharded by rows or by columns moves nothing; by the inner dim its result is
// Partial. A layer by columns followed by one by rows needs one all-reduce at the end
// (Shoeybi et al. 2019).
//
// # Plans
//
// A [Plan] has a list of steps for every rank: programs to run, collectives to start, and
// collectives to wait for. Collectives are steps between programs, not operations of
// package tensor. So workers compile and cache programs as usual, engines need not know
// about ranks, and a collective runs beside the next program. Several all-reduces whose
// results are not needed before the last of them become one ([Options].BucketBytes).
//
// # No deadlock
//
// The plan has one order of all collectives, and every rank starts those of its groups in
// that order. Ranks wait only for collectives. Consider the first collective in the order
// that has not ended. Everything before it has ended, so each member of its group reaches
// it without waiting, and it ends. Programs wait for nothing.
//
// # Exactness
//
// Movement is exact, and so are all operations on integers, and on floats that hold small
// integers. Sums of floats are taken in another order than on one rank: this adds at most
// one rounding for each rank, and two for a mean and a loss of rows. Where the plan
// defers a sum it assumes finite numbers: with inf-inf among the terms the result is a
// NaN that the whole sum may not have. -0 may become 0. The tests hold every instruction
// to 16 units in the last place of (1+t)^2, where t is the largest term on any rank.
//
// With [Options].Parts no bits depend on the number of ranks (exact.go). A batch is cut
// in so many parts. The program of a part and the order in which the parts' terms are
// folded are the same for any number of ranks. The instructions that follow the folds
// work on whole tensors; only updates of optimizers, which are elementwise, work on rows.
//
// All functions may be called concurrently; a Plan is read-only.
//
// # Files
//
//	mesh.go placement.go   how tensors lie, and the part of a rank
//	rules.go rules_*.go    the placements under which an operation can run
//	rewrite.go choose.go   the rewriting of a program, and its choices by cost
//	redistribute.go        moving an operand from one layout to another
//	lower.go loss.go       an operation on the parts of ranks; losses of sharded rows,
//	                       whose means are over all rows
//	build.go schedule.go   the nodes that ranks make, their order, buckets of all-reduces
//	finish.go              the steps of each rank
//	plan.go explain.go     the plan, and its description as text
//	signals.go signals_check.go  hints by name
//	auto.go                layouts without hints
//	exact.go exact_parts.go exact_fold.go  Options.Parts: phases, the programs of parts,
//	                       the folds of their terms
//	stages.go part.go join.go    a program in parts on several meshes
//	compose.go             a plan that is put together from the plans of parts
//	pipeline.go            the order 1F1B
//	box.go                 copies of parts of tensors
package shard
