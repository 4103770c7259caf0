// Package config describes on which workers the parts of a program run, and how its
// tensors are cut, in a file or in Go: placements for signals (tensor.Session.Signal). It
// does no I/O.
//
//	workers: 8                       # how many; default: as many as are named
//	mesh: {data: 2, model: 2}        # of the workers or of each stage; default: data
//	zero1: true                      # cut optimizers' state along the mesh's first dim
//	auto_shard: false                # choose layouts without a placement, see shard.Auto
//	micro_batches: 4                 # into which a batch is cut, where there are stages
//
//	batch:                           # every other key is a signal
//	  shard: {axis: 0, along: data}
//	attention:
//	  shard: {axis: -1, along: model, even: true}
//	encoder:
//	  workers: [0, 1, 2, 3]          # a stage: the scope's operations run there
//	  backward: encoder_backward     # whose placement the gradients have
//	encoder_backward:
//	  workers: [4, 5, 6, 7]
//
// The keys of a signal:
//
//	shard.axis       the dim of the tensor that is cut, from 0 or from -1 for the last;
//	                 required
//	shard.along      the dim of the mesh, or a list; default: all, one after the other
//	shard.workers    as workers
//	shard.even       a dim that the ranks don't divide is an error; default false: some
//	                 ranks have one row more
//	workers          where the scope runs: a list of numbers from 0; null or none: all
//	backward         another signal
//	compile          true or false; it has no effect, as every program is compiled and the
//	                 results have the same bits either way
//
// exact: 12 cuts every batch in 12 parts, whose gradients are folded in one order.
// Results then have the same bits on any number of workers that divides 12. Only the
// batch and the optimizer's state can be cut.
//
// Lists of workers are stages: two signals name the same workers or have none in common.
// Each stage is a mesh of its own.
//
// # Placements
//
// The shard entry of a signal applies to tensors that its scope makes from data or
// constants, and to a tensor that was named by itself (tensor.Tensor.Signal). The results
// of a scope's operations lie where that is cheapest. Every signal may be left out of the
// config, and every key except shard.axis. The results of a program do not depend on the
// config.
//
// # Errors
//
// An error is an *Error, which unwraps to ErrConfig and has the file, line, column,
// value, and the allowed values.
package config
