package bench

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"

	"golang.org/x/sys/unix"
)

const (
	maxP50OverC = 1.5
	maxP99OverC = 3

	idlePauseUS      = 1000
	maxIdleOverFutex = 1.15
)

// runLatency times round trips of 64 bytes between two processes that have nothing else
// to do.
func runLatency(r *run) {
	trips := func(name string, count int, of func(n int) []float64) side {
		return sampled(name, "ns", count, of)
	}
	mode := func(t tool, mode string) func(n int) []float64 {
		return func(n int) []float64 { return t.run(r.ctx, mode, n) }
	}
	socket := func(kind string) func(n int) []float64 {
		return func(n int) []float64 {
			a, b := socketPair()
			return bytesTrips(r, role{Kind: kind, Count: n}, []*os.File{a}, []*os.File{b})
		}
	}
	ring := trips("ring", 200_000, func(n int) []float64 { return ringTrips(r, n, 0) })
	var sides []side
	f := r.floor()
	if f != nil { // the last of them right before the ring
		sides = []side{trips("C ring with commit words", 200_000, mode(f, "commit")), trips("C ring", 200_000, mode(f, "ring"))}
	}
	sides = append(sides, ring,
		trips("local conn", 200_000, func(n int) []float64 { return connTrips(r, n, 0) }),
		trips("unix socket, system calls", 4000, socket("raw")),
		trips("unix socket, package net", 4000, socket("net")),
		trips("pipe, system calls", 4000, func(n int) []float64 { return pipeTrips(r, n) }),
		trips("TCP loopback, package net", 4000, func(n int) []float64 { return tcpTrips(r, n) }))
	if peers := heavyPeers(r, "netpoll and shmipc-go"); peers != nil {
		sides = append(sides, trips("netpoll, TCP loopback", 4000, mode(peers, "netpoll")), trips("shmipc-go", 4000, mode(peers, "shmipc")))
	}
	if mpi := r.mpi(); mpi != nil {
		sides = append(sides, trips("Open MPI", 50_000, mode(mpi, "trips")))
	}
	r.measure(turns{rounds: r.rounds(7), line: f}, sides...)
	if f != nil {
		r.atMost("latency_p50_over_c_ring", ratio(ring.series, sides[1].series), maxP50OverC)
		r.atMost("latency_p99_over_c_ring", ratioAt(ring.series, sides[1].series, 0.99), maxP99OverC)
	}
}

// runIdle times round trips with pauses between, in which both ends fall asleep.
func runIdle(r *run) {
	const n = 400
	sides := []side{
		sampled("ring", "ns", n, func(n int) []float64 { return ringTrips(r, n, idlePauseUS) }),
		sampled("local conn", "ns", n, func(n int) []float64 { return connTrips(r, n, idlePauseUS) }),
	}
	f := r.floor()
	if f != nil {
		sides = append(sides, sampled("futex in C", "ns", n, func(n int) []float64 { return f.run(r.ctx, "futex", n, idlePauseUS) }))
	}
	r.measure(turns{rounds: r.rounds(7), line: f}, sides...)
	if f != nil {
		r.atMost("idle_p50_over_futex", ratio(sides[0].series, sides[2].series), maxIdleOverFutex)
	}
}

// peersDir is where the module of the heavy peers lies: libraries that only they need
// stay out of ours.
const peersDir = "bench/peers"

// heavyPeers are other Go libraries. They are there when this runs inside the source tree
// and there is a go command that can build them; otherwise it returns nil, and reports
// what is left out.
func heavyPeers(r *run, what string) tool {
	dir := must(os.Getwd())
	for !exists(filepath.Join(dir, peersDir, "go.mod")) {
		if dir == filepath.Dir(dir) {
			r.without(what, errors.New("run this in a clone of ringside, which has "+peersDir+", and go builds it"))
			return nil
		}
		dir = filepath.Dir(dir)
	}
	path := filepath.Join(r.tempDir(), "peers")
	build := exec.CommandContext(r.ctx, "go", "build", "-o", path, ".")
	build.Dir = filepath.Join(dir, peersDir)
	if out, err := build.CombinedOutput(); err != nil {
		r.without(what, fmt.Errorf("%w: %w: %s", errNoPeers, err, out))
		return nil
	}
	return tool{path}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// ringTrips are over two bare rings in a segment.
func ringTrips(r *run, n, pauseUS int) []float64 {
	seg := newRings()
	defer seg.Close()
	base := role{Kind: "ring", Files: []*os.File{seg.File()}, Count: n, PauseUS: pauseUS}
	return duo(r, base.as("pong"), base.as("ping"))
}

// connTrips are over a conn of the local transport.
func connTrips(r *run, n, pauseUS int) []float64 {
	base := role{Kind: "conn", Addr: r.socket(), Count: n, PauseUS: pauseUS}
	return duo(r, base.as("pong"), base.as("ping"))
}

// bytesTrips are over a stream of bytes whose ends are the files, which it closes.
func bytesTrips(r *run, base role, ping, pong []*os.File) []float64 {
	defer closeAll(ping)
	defer closeAll(pong)
	a, b := base.as("pong"), base.as("ping")
	a.Files, b.Files = pong, ping
	return duo(r, a, b)
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}

// socketPair is a pair of connected unix sockets.
func socketPair() (a, b *os.File) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	check(os.NewSyscallError("socketpair", err))
	return os.NewFile(uintptr(fds[0]), "socket"), os.NewFile(uintptr(fds[1]), "socket")
}

func pipeTrips(r *run, n int) []float64 {
	r0, w0, err := os.Pipe()
	check(err)
	r1, w1, err := os.Pipe()
	check(err)
	return bytesTrips(r, role{Kind: "pipe", Count: n}, []*os.File{r0, w1}, []*os.File{r1, w0})
}

func tcpTrips(r *run, n int) []float64 {
	l := must(net.Listen("tcp", "127.0.0.1:0"))
	defer l.Close()
	dialed := must(net.Dial("tcp", l.Addr().String()))
	defer dialed.Close()
	accepted := must(l.Accept())
	defer accepted.Close()
	file := func(c net.Conn) []*os.File { return []*os.File{must(c.(*net.TCPConn).File())} }
	return bytesTrips(r, role{Kind: "net", Count: n}, file(dialed), file(accepted))
}
