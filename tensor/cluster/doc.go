// Package cluster starts a dispatcher and its workers: as child processes of this one, or
// as goroutines in it.
//
// Children are the program's own binary with other arguments. They end with this process,
// also when it is killed: the kernel signals them (PR_SET_PDEATHSIG). A dispatcher that
// is left alone closes its socket properly, so that nothing is left in the runtime
// directory. Where all of them are killed at once, the next cluster removes their sockets
// (Sweep).
//
// A worker that dies is started again if Options.Restart says so, after a pause that
// grows while it keeps dying. Its sessions are lost all the same; clients open new ones.
// A dispatcher that dies is started again too, at the same address, where workers that
// look for it (worker.Options) and clients find it. A session goes on if it has one
// worker and a connection of its own with it. All other sessions are told to begin again.
package cluster
