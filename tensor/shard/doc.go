// Package shard turns one program into programs for several workers. It is pure: it computes on descriptions of tensors and
// does no I/O. Others carry its plans out.
//
// # Placements
//
// Workers form a [Mesh] of one dim or two (data x model). A [Layout] says for every dim of the mesh how a tensor lies along it:
//
//	Replicate      every rank has the whole
//	Shard(d)       rank i has the i-th chunk of dim d; of n rows on p ranks the first n%p have one more (10 on 4: 3 3 2 2),
//	               so that no two differ by more than one; ranks beyond the n-th have none
//	Partial(op)    every rank has a term of the tensor's shape; their sum, mean, max, min or product is the tensor
//
// Where both dims of a mesh shard one dim of a tensor, the first dim of the mesh cuts first and the second cuts its pieces.
//
// # Rules
//
// Every operation has a rule (rules_*.go): the placements of its operands under which the ranks can run it on what they
// have, and the placement of what comes out. [Rewrite] goes through a program in order and takes, for every
// instruction, the cheapest of these (see choose.go); where an operand lies otherwise, it is moved:
//
//	Partial -> Replicate   all-reduce       2(p-1)/p of the tensor's bytes are sent by each rank
//	Partial -> Shard       reduce-scatter    (p-1)/p
//	Shard -> Replicate     all-gather        (p-1)/p
//	Shard(a) -> Shard(b)   all-to-all        (p-1)/p^2
//	Replicate -> Shard     a local slice     0
//	Replicate -> Partial   zeros on all ranks but the first: 0
//
// A sum over a sharded dim is Partial, and stays so through linear operations until something that isn't linear needs its
// value. Data parallelism is what follows from that: with a batch that is Shard(0) and parameters that are Replicate,
// gradients come out Partial, and the optimizer's need for their value is the all-reduce. If the optimizer's state is
// Shard(0), the same choice by cost gives a reduce-scatter, an update of shards, and an all-gather of the parameter (ZeRO-1:
// Rajbhandari et al. 2020). A product of matrices sharded by rows or by columns moves nothing, by the inner dim it is
// Partial, and by columns and then by rows there is one all-reduce at the end (Shoeybi et al. 2019).
//
// # Plans
//
// A [Plan] has a list of steps for every rank: programs to run, collectives to start, and collectives to wait for.
// Collectives stand between programs and are no operations of tensor's table, because that serves everyone: a worker
// compiles and caches programs as ever, engines know nothing of ranks, and a collective that was started is under way
// while the next program runs. All-reduces of several tensors that wait for each other's end anyway are one ([Options].BucketBytes).
//
// # No deadlock
//
// Collectives have one order for the whole plan, and every rank starts those of its groups in that order. Ranks that wait
// for each other therefore wait for a collective that is the next one for all of them: take the first one that has not
// ended; everything before it has ended, every member of its group gets to it without waiting for anything else, and so it
// ends. Programs in between wait for nobody.
//
// # Exactness
//
// Movement is exact, and so is everything on integers and on floats that hold integers small enough. Sums of floats are taken in
// another order than on one rank: at most a rounding for every rank more (a mean and a loss of rows: two more). The plan supposes finite
// numbers where it puts off a sum (the tests hold every instruction to 16 units in the last place of (1+t)^2, t being the largest
// term on any rank): inf-inf among the terms is a NaN that a whole sum may not have. -0 may come back as 0.
//
// All functions may be called concurrently; a Plan is read-only.
//
// # Where things are
//
//	mesh.go placement.go          how tensors lie, and which part a rank has
//	rules.go rules_*.go           under which placements an operation can run
//	rewrite.go choose.go          a program, instruction by instruction: what each costs, the cheapest
//	redistribute.go lower.go      what moves an operand; an operation on the parts of ranks
//	loss.go                       losses of sharded rows, whose means are over all rows
//	build.go schedule.go finish.go  what ranks make, in what order, and as steps; several all-reduces in one
//	plan.go explain.go            the result, and in words
//	signals.go signals_check.go   what a config says of names
//	auto.go                       what nobody says is chosen
//	stages.go part.go join.go pipeline.go  a program in parts on several meshes, put together; the order 1F1B
//	box.go                        copies of parts of tensors
package shard
