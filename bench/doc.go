// Package bench holds whole scenarios: what a user of ringside would time, each beside a peer or a floor that is
// measured in the same run. `go test -bench` and `ringside bench` run the same list.
//
// The sides of a scenario are interleaved: a round measures every side once, so that what disturbs the machine
// disturbs all of them, and ratios are taken within a round. A bar is a figure with a limit; a scenario reports whether
// it holds and never fails because of it.
package bench
