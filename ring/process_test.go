package ring_test

import (
	"encoding/binary"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/ringside-go/ringside/ring"
	"github.com/ringside-go/ringside/shm"
)

// The tests of this file run a second process: this test binary, told by its
// arguments which part to play. They share one segment:
//
//	0       bell of the parent
//	4096    bell of the child
//	8192    one word, then from 12288 on another: the floor to compare with
//	65536   ring to the child
//	then    ring to the parent
const (
	parentBell = 0
	childBell  = 4096
	lineOut    = 8192
	lineBack   = 12288
	rings      = 65536
)

var futex = ring.Futex{Wait: shm.FutexWait, Wake: shm.FutexWake, Barrier: shm.Barrier, Heed: shm.HeedBarriers}

func TestMain(m *testing.M) {
	flag.Parse()
	if flag.Arg(0) != "child" {
		os.Exit(m.Run())
	}
	if err := child(flag.Args()[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "child:", err)
		os.Exit(1)
	}
}

// side is one process's half of the segment.
type side struct {
	seg  *shm.Segment
	p    *ring.Producer
	c    *ring.Consumer
	w    *ring.Waiter
	peer *ring.Bell
}

func attach(seg *shm.Segment, capacity int, isParent bool) (*side, error) {
	mem := seg.Bytes()
	own, peer := childBell, parentBell
	out, in := rings+ring.Size(capacity), rings
	if isParent {
		own, peer, out, in = peer, own, in, out
	}
	ownBell, err := ring.NewBell(mem[own:own+ring.BellSize], futex)
	if err != nil {
		return nil, err
	}
	peerBell, err := ring.NewBell(mem[peer:peer+ring.BellSize], futex)
	if err != nil {
		return nil, err
	}
	p, err := ring.NewProducer(mem[out : out+ring.Size(capacity)])
	if err != nil {
		return nil, err
	}
	c, err := ring.NewConsumer(mem[in:in+ring.Size(capacity)], &ring.ConsumerOptions{Space: peerBell})
	if err != nil {
		return nil, err
	}
	return &side{seg, p, c, ring.NewWaiter(ownBell, nil), peerBell}, nil
}

// start makes the segment and starts a child that plays the role for n messages.
func start(t testing.TB, capacity int, role string, n int) (*side, *exec.Cmd) {
	t.Helper()
	size := int64(rings + 2*ring.Size(capacity))
	seg, err := shm.Create(size, &shm.Options{Prefault: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { seg.Close() })
	mem := seg.Bytes()
	for _, err := range []error{
		ring.InitBell(mem[parentBell : parentBell+ring.BellSize]),
		ring.InitBell(mem[childBell : childBell+ring.BellSize]),
		ring.Init(mem[rings : rings+ring.Size(capacity)]),
		ring.Init(mem[rings+ring.Size(capacity) : rings+2*ring.Size(capacity)]),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	s, err := attach(seg, capacity, true)
	if err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, "child", role, strconv.Itoa(capacity), strconv.Itoa(n), strconv.FormatInt(seg.Size(), 10))
	cmd.ExtraFiles = []*os.File{seg.File()}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return s, cmd
}

func child(args []string) error {
	var num [3]int
	for i := range num {
		n, err := strconv.Atoi(args[1+i])
		if err != nil {
			return err
		}
		num[i] = n
	}
	capacity, n, size := num[0], num[1], num[2]
	seg, err := shm.FromFile(1, os.NewFile(3, "segment"), int64(size), &shm.Options{Prefault: true})
	if err != nil {
		return err
	}
	s, err := attach(seg, capacity, false)
	if err != nil {
		return err
	}
	switch args[0] {
	case "echo":
		return s.echo(n)
	case "line":
		for i := range n {
			spinUntil(word(seg, lineOut), uint32(i+1))
			atomic.StoreUint32(word(seg, lineBack), uint32(i+1))
		}
		return nil
	case "sink":
		return s.sink(n)
	}
	return fmt.Errorf("unknown role %q", args[0])
}

// spinUntil spins, and now and then lets others run, in case the one it waits for
// has no core.
func spinUntil(w *uint32, v uint32) {
	for i := 1; atomic.LoadUint32(w) != v; i++ {
		if i%4096 == 0 {
			syscall.RawSyscall(syscall.SYS_SCHED_YIELD, 0, 0, 0)
		}
	}
}

func (s *side) send(msg []byte, tag uint32) error {
	for {
		body, err := s.p.Reserve(len(msg))
		if err == nil {
			copy(body, msg)
			s.p.Commit(tag)
			s.peer.Ring()
			return nil
		}
		if err != ring.ErrFull {
			return err
		}
		n := len(msg)
		if !s.w.WaitFor(func() bool { return s.p.CanReserve(n) }, nil, time.Minute) {
			return fmt.Errorf("no room for %d bytes within a minute", n)
		}
	}
}

func (s *side) recv(msg []byte, ready func() bool) (tag uint32, n int, err error) {
	for {
		tag, body, err := s.c.Peek()
		if err == nil {
			n := copy(msg, body)
			s.c.Release()
			return tag, n, nil
		}
		if err != ring.ErrEmpty {
			return 0, 0, err
		}
		if !s.w.WaitFor(ready, nil, time.Minute) {
			return 0, 0, fmt.Errorf("no message within a minute")
		}
	}
}

func (s *side) echo(n int) error {
	msg := make([]byte, s.p.MaxRecord())
	ready := s.c.Ready
	for range n {
		tag, k, err := s.recv(msg, ready)
		if err != nil {
			return err
		}
		if err := s.send(msg[:k], tag); err != nil {
			return err
		}
	}
	return nil
}

// sink reads n records, checks that they are those of flood, and answers with
// their number.
func (s *side) sink(n int) error {
	ready := s.c.Ready
	for i := 0; i < n; {
		tag, body, err := s.c.Peek()
		if err == ring.ErrEmpty {
			if !s.w.WaitFor(ready, nil, time.Minute) {
				return fmt.Errorf("no record %d within a minute", i)
			}
			continue
		}
		if err != nil {
			return err
		}
		if tag != uint32(i) || len(body) != floodSize(i, s.p.MaxRecord()) {
			return fmt.Errorf("record %d: tag %d, %d bytes", i, tag, len(body))
		}
		for k, v := range body {
			if v != byte(i+k) {
				return fmt.Errorf("record %d, byte %d: %d", i, k, v)
			}
		}
		s.c.Release()
		i++
	}
	var answer [8]byte
	binary.LittleEndian.PutUint64(answer[:], uint64(n))
	return s.send(answer[:], 0)
}

func floodSize(i, most int) int { return i * 7 % (min(most, 300) + 1) }

// flood sends n records of many sizes, every third published with the two before.
func (s *side) flood(n int) error {
	for i := 0; i < n; {
		size := floodSize(i, s.p.MaxRecord())
		body, err := s.p.Reserve(size)
		if err == ring.ErrFull {
			s.peer.Ring()
			if !s.w.WaitFor(func() bool { return s.p.CanReserve(size) }, nil, time.Minute) {
				return fmt.Errorf("no room for record %d within a minute", i)
			}
			continue
		}
		if err != nil {
			return err
		}
		for k := range body {
			body[k] = byte(i + k)
		}
		s.p.Stage(uint32(i))
		if i++; i%3 == 0 || i == n {
			s.p.Publish()
			s.peer.Ring()
		}
	}
	return nil
}

func TestTwoProcessesPingPong(t *testing.T) {
	const n = 10000
	for _, capacity := range []int{64, 1024, 65536} {
		s, cmd := start(t, capacity, "echo", n)
		msg := make([]byte, s.p.MaxRecord())
		ready := s.c.Ready
		for i := range n {
			size := 8 + i%(min(len(msg)-8, 200)+1)
			for k := range size {
				msg[k] = byte(i * k)
			}
			if err := s.send(msg[:size], uint32(i)); err != nil {
				t.Fatal(err)
			}
			clear(msg[:size])
			tag, k, err := s.recv(msg, ready)
			if err != nil {
				t.Fatal(err)
			}
			if tag != uint32(i) || k != size {
				t.Fatalf("message %d of %d bytes came back as %d of %d", i, size, tag, k)
			}
			for k := range size {
				if msg[k] != byte(i*k) {
					t.Fatalf("message %d, byte %d: %d", i, k, msg[k])
				}
			}
		}
		if err := cmd.Wait(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTwoProcessesStream(t *testing.T) {
	const n = 30000
	for _, capacity := range []int{64, 1024, 65536} {
		s, cmd := start(t, capacity, "sink", n)
		if err := s.flood(n); err != nil {
			t.Fatal(err)
		}
		var answer [8]byte
		_, _, err := s.recv(answer[:], s.c.Ready)
		if err != nil {
			t.Fatal(err)
		}
		if got := binary.LittleEndian.Uint64(answer[:]); got != n {
			t.Errorf("the child read %d records, expected %d", got, n)
		}
		if err := cmd.Wait(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestPeerKilled: a peer that is killed at a random point leaves a ring that can still be
// read and written, and no end hangs.
func TestPeerKilled(t *testing.T) {
	for round := range 10 {
		s, cmd := start(t, 1024, "echo", 1<<30)
		msg := make([]byte, 100)
		ready := s.c.Ready
		for range 50 * (round + 1) {
			if err := s.send(msg, 1); err != nil {
				t.Fatal(err)
			}
			if _, _, err := s.recv(msg, ready); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.send(msg, 2); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err == nil {
			t.Fatal("the killed child ended well")
		}
		// The message under way has arrived or has not. After it there is silence, room
		// for a few messages, and then ErrFull.
		for {
			_, _, err := s.c.Peek()
			if err == ring.ErrEmpty {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			s.c.Release()
		}
		if s.w.WaitFor(ready, nil, time.Millisecond) {
			t.Error("a dead child sent something")
		}
		var err error
		for err == nil {
			if _, err = s.p.Reserve(100); err == nil {
				s.p.Commit(1)
				s.peer.Ring()
			}
		}
		if err != ring.ErrFull {
			t.Errorf("Reserve: %v, expected ErrFull", err)
		}
	}
}

// median times f in chunks and returns the median of a call, in nanoseconds: the
// mean would be that of the interruptions.
func median(n int, f func(i int)) float64 {
	const chunk = 64
	var times []time.Duration
	for i := 0; i < n; {
		k := min(chunk, n-i)
		start := time.Now()
		for range k {
			f(i)
			i++
		}
		times = append(times, time.Since(start)/time.Duration(k))
	}
	slices.Sort(times)
	return float64(times[len(times)/2])
}

// BenchmarkProcesses is a round trip between two processes. The line is one word
// there and one back with no queue at all, the floor on this machine at this
// moment.
func BenchmarkProcesses(b *testing.B) {
	b.Run("line", func(b *testing.B) {
		n := b.N
		s, cmd := start(b, 1024, "line", n)
		b.ResetTimer()
		p50 := median(n, func(i int) {
			atomic.StoreUint32(word(s.seg, lineOut), uint32(i+1))
			spinUntil(word(s.seg, lineBack), uint32(i+1))
		})
		b.ReportMetric(p50, "p50-ns")
		if err := cmd.Wait(); err != nil {
			b.Fatal(err)
		}
	})
	for _, size := range []int{56, 64, 120, 4096} {
		b.Run(strconv.Itoa(size), func(b *testing.B) {
			n := b.N
			s, cmd := start(b, 65536, "echo", n)
			msg := make([]byte, size)
			ready := s.c.Ready
			b.ResetTimer()
			p50 := median(n, func(int) {
				if err := s.send(msg, 1); err != nil {
					b.Fatal(err)
				}
				if _, _, err := s.recv(msg, ready); err != nil {
					b.Fatal(err)
				}
			})
			b.ReportMetric(p50, "p50-ns")
			if err := cmd.Wait(); err != nil {
				b.Fatal(err)
			}
		})
	}
}
