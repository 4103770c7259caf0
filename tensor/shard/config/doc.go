// Package config says on which workers and how the parts of a program run, in a file or in Go: placements for signals
// (tensor.Session.Signal). It is pure; nothing is read from disk but what is given.
//
//	workers: 8                       # how many; default: as many as are named
//	mesh: {data: 2, model: 2}        # of the workers, or of each stage; default: a line named data
//	zero1: true                      # optimizers' state is cut along the first dim of the mesh
//	auto_shard: false                # what nobody says is chosen, see shard.Auto
//	micro_batches: 4                 # that a batch is cut into, where there are stages
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
//	shard.axis       the dim of the tensor that is cut, from 0 or from -1 for the last; needed
//	shard.along      the dim of the mesh, or a list; default: all, one after the other
//	shard.workers    as workers
//	shard.even       a dim that the ranks don't divide is an error; default false: some have one row more
//	workers          where the scope runs: a list of numbers from 0; null or none: all
//	backward         another signal
//	compile          true or false; every program is compiled, and the results are the same bits either way
//
// Lists of workers are stages: two signals name the same workers or have none in common. A stage is a mesh of its own.
//
// # What a placement means
//
// Tensors that a scope makes from data or from nothing lie as its shard says, and so does a tensor that was named by itself
// (tensor.Tensor.Signal). The results of a scope's operations lie where that is cheapest. Every signal may be left out of the config,
// and every key but shard.axis: then nothing is said, and the numbers are the same.
//
// # Errors
//
// An error is an *Error, which unwraps to ErrConfig and says file, line, column, the value, and what is allowed.
package config
