// Package comm is what the engine asks of a library of collectives on values of GPUs. See
// package nccl for the one that there is.
package comm
