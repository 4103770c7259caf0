// Package device is the contract between a session and what computes: cores, a GPU. A
// Device compiles and runs programs and has the memory of their values; a Space holds the
// values of one session on it. Workers take any Device, and NewEngine makes a
// tensor.Engine of one for a session in the same process.
//
// Values may lie where no other code can read them, and programs may run after Run has
// returned. Therefore:
//
//   - Bytes of values leave a space through Host and Read, and enter it through Import
//     and Fill. No other code touches them.
//   - An error of a program may come late: from the next call that waits (Sync, Host,
//     Read), as a *Failure.
//
// The order of a space's calls is the order of their effects: a value may be named in the
// call after the one that makes it, and freed in the call after the one that reads it. A
// device that runs late keeps it alive until then.
//
// A program that runs can be stopped: Run takes a flag that any goroutine may set. The
// device looks at it at least every few milliseconds, whatever the program computes, so
// that a client which closes its session, gives up waiting or dies leaves the device to
// the others. Compile refuses a program with more work than the device takes
// (tensor.ErrWork).
//
// An ability that only some devices have is a further interface that their Device or
// Space implements; callers ask by type assertion.
//
//	device.go   Device and what describes it: Info, Kind, Stats, Work
//	space.go    Space, Value, Failure
//	engine.go   a tensor.Engine on a Device
//	step.go     a step that ran, for devices that tell of their steps
//	rounding.go what the bits of results depend on
//	cache.go    for devices: the programs they have compiled
//	check.go    for spaces: mistakes in arguments
//	peers.go    values moved where they are: Connector, Peers, Linker, Link
//
// Package devicetest tests what every Device must do. Package apart is a device for
// tests, whose memory faults when other code touches it, and which runs late and fails
// late.
package device
