package bench

import "os"

const (
	minMessagesOverC   = 1
	minMessagesOverMPI = 2.5
	maxIdlePercent     = 0.5

	// batchSize is how many messages are shown at a time where they are batched.
	batchSize = 32
)

// runThroughput counts messages of 64 bytes one way between two processes, payloads that
// travel by handle, and the cost of an open but unused conn.
func runThroughput(r *run) {
	stream := func(name string, count int, of func(n int) []float64) side {
		return sampled(name, "messages/s", count, of)
	}
	const n = 4_000_000
	ring := stream("ring", n, func(n int) []float64 { return ringStream(r, n, 1) })
	var sides []side
	f := r.floor()
	if f != nil { // the last of them right before the ring
		sides = []side{
			stream("C ring with commit words", n, func(n int) []float64 { return f.run(r.ctx, "commit-stream", n, 1) }),
			stream("C ring, batches of 32", n, func(n int) []float64 { return f.run(r.ctx, "ring-stream", n, batchSize) }),
			stream("C ring", n, func(n int) []float64 { return f.run(r.ctx, "ring-stream", n, 1) }),
		}
	}
	sides = append(sides, ring,
		stream("ring, batches of 32", n, func(n int) []float64 { return ringStream(r, n, batchSize) }),
		stream("local conn", n, func(n int) []float64 { return connStream(r, role{Count: n}, "conn-source", "conn-sink") }))
	mpi := r.mpi()
	if mpi != nil {
		sides = append(sides, stream("Open MPI", n/4, func(n int) []float64 { return mpi.run(r.ctx, "stream", n) }))
	}
	r.measure(turns{rounds: r.rounds(7), line: f}, sides...)
	r.measure(turns{rounds: r.rounds(7)}, blockSides(r)...)
	idle := sampled("idle conn, each end", "% of a core", 1000, func(ms int) []float64 {
		listen := role{Addr: r.socket(), Core: -1, Count: ms}.as("idle")
		dial := listen
		listen.Kind = "listen"
		return duo(r, listen, dial)
	})
	r.measure(turns{rounds: r.rounds(5)}, idle)
	if f != nil {
		r.atLeast("messages_over_c_ring", ratio(ring.series, sides[2].series), minMessagesOverC)
	}
	if mpi != nil {
		r.atLeast("messages_over_openmpi", ratio(ring.series, sides[len(sides)-1].series), minMessagesOverMPI)
	}
	r.atMost("idle_cpu_percent", idle.median(), maxIdlePercent)
}

func ringStream(r *run, n, batch int) []float64 {
	seg := newRings()
	defer seg.Close()
	base := role{Files: []*os.File{seg.File()}, Count: n, Batch: batch}
	return duo(r, base.as("ring-source"), base.as("ring-sink"))
}

// connStream plays a source and a sink at the two ends of a conn.
func connStream(r *run, base role, source, sink string) []float64 {
	base.Addr = r.socket()
	return duo(r, base.as(source), base.as(sink))
}

// blockSides are payloads of some sizes, by handle and copied within one process.
func blockSides(r *run) (sides []side) {
	for _, size := range []struct {
		name         string
		bytes, count int
	}{{"64 KB", 64 << 10, 20_000}, {"4 MB", 4 << 20, 400}} {
		add := func(name string, of func(n int) []float64) {
			sides = append(sides, sampled(size.name+" "+name, "GB/s", size.count, of))
		}
		handles := func(kind string) func(n int) []float64 {
			return func(n int) []float64 {
				return connStream(r, role{Kind: kind, Count: n, Size: size.bytes}, "block-source", "block-sink")
			}
		}
		add("by handle, filled in place and read in place", handles("fill"))
		add("by handle, copied in and copied out", handles("copy"))
		add("memcpy", func(n int) []float64 { return []float64{copyRate(n, size.bytes)} })
	}
	return sides
}
