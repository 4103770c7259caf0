// Package bench holds whole scenarios: what a user of ringside would time, each beside a peer or a floor that is
// measured in the same run. `go test -bench` and `ringside bench` run the same list.
//
// The sides of a scenario are interleaved: a round measures every side once, so that what disturbs the machine
// disturbs all of them, and ratios are taken within a round. A bar is a figure with a limit; a scenario reports whether
// it holds and never fails because of it.
//
// What a scenario is measured beside lies in five places:
//
//	floor      the least there is to do, in C; and Open MPI's loops in C (mpi.c, collective.c) and Gloo's in Python
//	torch      PyTorch's training steps and DDP, in Python
//	peers      other projects' transports in Go: a module and a program of its own
//	peers.go, collective_sides.go, torch_peer.go  build and start these
//	*_parts.go what ours and the plain sides of a scenario do in a process of their own
package bench
