// Package bench holds whole scenarios: what a user of ringside would time, each beside a
// peer or a floor that is measured in the same run. `go test -bench` and `ringside bench`
// run the same list.
//
// The sides of a scenario are interleaved: a round measures every side once, so that what
// disturbs the machine disturbs all of them, and ratios are taken within a round. A bar
// is a figure with a limit; a scenario reports whether it holds and never fails because
// of it.
//
// A scenario is a script over its run, in which sides take turns (measure). It ends at
// its first error (check, must), as a benchmark of package testing ends at Fatal, and so
// does a part of a play, which is one of several processes that measure something
// together (play).
//
// Peers and floors lie in five places:
//
//	floor      the least there is to do, in C; Open MPI's loops in C, Gloo's in Python
//	torch      PyTorch's training steps and DDP, in Python
//	peers      other projects' transports in Go: a module and a program of its own
//	floor.go, torch_peer.go, collective_sides.go  build and start these
//	*_parts.go ours and the plain sides of a scenario, in a process of their own
package bench
