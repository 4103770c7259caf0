// Command libringside is the C library of ringside, built by
//
//	CGO_ENABLED=1 go build -buildmode=c-shared -o libringside.so ./cmd/libringside
//
// ringside.h is its interface: versions, threads and ownership are described there.
// Clients of other languages call it; those in Python are in the folder python.
//
// api.c and session.c have the functions of the header. They refuse calls in a forked
// child and pass the others on to cgo_unsafe.go and session_unsafe.go, which turn
// pointers of C into slices. The other files do the work, without cgo:
//
//	handle.go      what C holds in place of Go pointers
//	errors.go      errors as text
//	pulse.go       the contexts of calls that a signal of the caller's language interrupts
//	open.go        groups are made, step by step
//	group.go       calls of a group
//	session.go     sessions, their tensors, and calls of threads one after another
//	operate.go     operations on tensors
//	read.go        values of tensors, and waits for them
//	batch.go       operations that the caller recorded, many at a time
//	graph.go       tensors that graphs need, and gradients
//	optimizer.go   optimizers of tensors
//	file.go        tensors in files
//	cluster.go     clusters that end with this process
//	table.go       the op table, and names of signals
package main

func main() {}
