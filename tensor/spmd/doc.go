// Package spmd is for programs that are ranks and compute with tensors: each rank has a
// session of its own, and the ranks exchange tensors by the collectives of package
// collective. Programs that use a dispatcher need none of it, since their tensors are
// placed on workers and the workers communicate.
package spmd
