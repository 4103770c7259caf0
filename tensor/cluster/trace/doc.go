// Package trace writes down what a cluster and a client of it do, and sums up such files.
//
// A [Recorder] asks the workers of a dispatcher for their events, as `ringside trace`
// does, and takes those of a client in this process (client.Options.Trace). It writes
// Chrome's trace events, which https://ui.perfetto.dev opens, or lines of text, while
// they come; it keeps none of them. [Parse] reads such a file, and a [Summary] says where
// the time went.
//
//	write.go    one event as JSON and as a line
//	ending.go   the ends of files, also on a full disk
//	record.go   asks, takes, and has them written
//	ranks.go    writes the events of ranks, which have no dispatcher
//	clock.go    sets the clocks of the hosts of ranks
//	read.go     reads a file and checks it
//	lines.go    reads the part of a file that has a line an event, which is faster
//	summary.go  where the time went, in words
//	draw.go     the timeline as SVG and PNG
//	laststep.go the events of one step, for a page
package trace
