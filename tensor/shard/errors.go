package shard

import "errors"

var (
	// ErrMesh is returned for an invalid mesh.
	ErrMesh = errors.New("shard: bad mesh")
	// ErrPlacement is returned for a placement that a tensor or a mesh can't have.
	ErrPlacement = errors.New("shard: bad placement")
	// ErrProgram is returned for a program whose rewriting exceeds the limits of a
	// program.
	ErrProgram = errors.New("shard: program can't be rewritten")
)
