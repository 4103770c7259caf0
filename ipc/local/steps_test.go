package local_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/local"
	"github.com/ringside-go/ringside/ring"
	"github.com/ringside-go/ringside/shm"
)

// Messages of the play. An answer has the kind and the body of what it answers.
const (
	kindPlain  = 1
	kindPause  = 2 // is answered after a pause, so that the waiting end sleeps
	kindGrow   = 3 // is answered with a new segment
	kindHandle = 4 // comes after that, a handle into it
	kindLast   = 5 // the victim closes after it
)

// The steps at which a process is killed: of the handshake of each side, and of both.
var (
	handshakeSteps = map[string][]string{
		"dialer":   {"dial: connected", "dial: hello sent", "dial: welcome read", "dial: mapped"},
		"listener": {"greet: hello read", "greet: segment made", "greet: welcome sent"},
	}
	steps = []string{
		"peek", "reserve", "fill", "publish", "commit", "release", "park", "unpark", "wake", "woken",
		"grow: made", "files sent", "grow: announced", "grow: used", "close: said", "close: hung up", "close: emptied",
	}
)

// noticed is when the other end counts as hanging, from when the kernel has told the
// parent of the death; it is milliseconds, but no test fails by a clock on a busy
// machine.
const noticed = 20 * time.Second

// victim kills its process when a step is taken for the count-th time.
type victim struct {
	step string

	mu    sync.Mutex
	count int
}

func (v *victim) at(step string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if step != v.step {
		return
	}
	if v.count--; v.count == 0 {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // until it arrives
	}
}

// next says whether the next time is the one.
func (v *victim) next(step string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if step == v.step {
		v.count--
	}
	if step != v.step || v.count > 0 {
		return false
	}
	v.count++
	return true
}

// helperVictim plays args[0], dialer or listener, at the path args[1], and is killed at
// the step args[2], the args[3]-th time.
func helperVictim(ctx context.Context, args []string) error {
	count, err := strconv.Atoi(args[3])
	if err != nil {
		return err
	}
	v := &victim{step: args[2], count: count}
	o := &ipc.Options{RingBytes: ipc.MinRingBytes}
	transport := local.Stepping(v.at)
	var c ipc.Conn
	if args[0] == "dialer" {
		c, err = transport.Dial(ctx, args[1], o)
	} else {
		var l ipc.Listener
		if l, err = transport.Listen(args[1], o); err != nil {
			return err
		}
		fmt.Println("listening")
		c, err = l.Accept(ctx)
	}
	for last := false; err == nil && !last; {
		last, err = v.answer(ctx, c)
	}
	if err != nil {
		return err
	}
	if err := c.Close(); err != nil {
		return err
	}
	<-ctx.Done() // the end of the socket is another goroutine's
	return ctx.Err()
}

// answer answers one message.
func (v *victim) answer(ctx context.Context, c ipc.Conn) (last bool, err error) {
	m, err := c.Recv(ctx)
	if err != nil {
		return false, err
	}
	v.at("peek")
	if m.Kind == kindPause {
		asleep(ctx, c)
	}
	if m.Kind == kindGrow {
		c.Release()
		return false, v.grow(ctx, c)
	}
	buf, err := c.Reserve(ctx, m.Kind, len(m.Body))
	if err != nil {
		return false, err
	}
	v.at("reserve")
	copy(buf[:len(buf)/2], m.Body)
	v.at("fill")
	copy(buf, m.Body)
	if v.next("publish") {
		local.Publish(c)
		v.at("publish")
	}
	if err := c.Commit(); err != nil {
		return false, err
	}
	v.at("commit")
	last = m.Kind == kindLast
	c.Release()
	v.at("release")
	return last, nil
}

// grow makes a segment, announces it, and sends a handle into it.
func (v *victim) grow(ctx context.Context, c ipc.Conn) error {
	seg, err := shm.Create(1<<16, &shm.Options{Backing: shm.Memfd, PeersRead: true})
	if err != nil {
		return err
	}
	defer seg.Close()
	v.at("grow: made")
	if _, err := c.Reserve(ctx, kindGrow, 0); err != nil {
		return err
	}
	if err := c.Commit(seg.File()); err != nil {
		return err
	}
	v.at("grow: announced")
	copy(seg.Bytes()[128:], inSegment)
	buf, err := c.Reserve(ctx, kindHandle, shm.HandleSize)
	if err != nil {
		return err
	}
	shm.Handle{Segment: seg.ID(), Off: 128, Len: uint64(len(inSegment))}.Put(buf)
	if err := c.Commit(); err != nil {
		return err
	}
	v.at("grow: used")
	return nil
}

const inSegment = "written before the handle was sent"

// survivor is the other end: it sends all kinds of messages from one goroutine and checks
// the answers in another, until the victim is gone.
type survivor struct {
	c     ipc.Conn
	table *shm.Table
	seg   uint64 // announced last
}

const plays = 4 // of rounds, each of which has everything

// drive returns the error that the conn ends with.
func (s *survivor) drive(ctx context.Context) error {
	sent := make(chan error, 1)
	go func() { sent <- s.send(ctx) }()
	err := s.receive(ctx)
	if sendErr := <-sent; sendErr != nil && !errors.Is(sendErr, ipc.ErrPeerGone) {
		err = errors.Join(err, sendErr)
	}
	s.table.Close()
	return errors.Join(err, s.c.Close())
}

// script is the i-th message to send: every round has single ones, a burst that fills
// both queues, and a segment.
func script(i int) (kind uint32, n int) {
	const round = 64
	switch {
	case i == plays*round:
		return kindLast, 8
	case i%round == 20:
		return kindGrow, 0
	case i%round < 20 && i%5 == 4:
		return kindPause, 16
	}
	return kindPlain, 8 + 37*i%400
}

func (s *survivor) send(ctx context.Context) error {
	for i := 0; ; i++ {
		kind, n := script(i)
		buf, err := s.c.Reserve(ctx, kind, n)
		if err != nil {
			return err
		}
		for k := range buf {
			buf[k] = byte(i + k)
		}
		if err := s.c.Commit(); err != nil || kind == kindLast {
			return err
		}
		if i%64 == 63 || i%64 < 20 && i%3 == 0 { // the victim sleeps meanwhile
			asleep(ctx, s.c)
		}
	}
}

// asleep waits until the peer sleeps. A pause of some length would not do: on a busy
// machine a peer that waits is kept from running for just as long, and never gets to
// sleep.
func asleep(ctx context.Context, c ipc.Conn) {
	_, bells := local.Memory(c)
	for ctx.Err() == nil && c.Err() == nil {
		<-time.After(500 * time.Microsecond)
		// of data and of room
		for _, bell := range [][]byte{bells[:ring.BellSize], bells[ring.BellSize:]} {
			if b, err := ring.InspectBell(bell); err == nil && b.Asleep {
				return
			}
		}
	}
}

func (s *survivor) receive(ctx context.Context) error {
	for i := 0; ; i++ {
		if i%64 == 30 { // and here both queues are full
			<-time.After(time.Millisecond)
		}
		if err := s.one(ctx, i); err != nil {
			return err
		}
		if kind, _ := script(i); kind == kindGrow {
			if err := s.handle(ctx); err != nil {
				return err
			}
		}
	}
}

// one receives the answer to the i-th message.
func (s *survivor) one(ctx context.Context, i int) error {
	m, err := s.c.Recv(ctx)
	if err != nil {
		return err
	}
	defer s.c.Release()
	kind, n := script(i)
	if m.Kind != kind || len(m.Body) != n {
		return fmt.Errorf("answer %d: kind %d with %d bytes, expected %d with %d", i, m.Kind, len(m.Body), kind, n)
	}
	for k, v := range m.Body {
		if v != byte(i+k) {
			return fmt.Errorf("answer %d: byte %d is %d", i, k, v)
		}
	}
	if kind != kindGrow {
		return nil
	}
	if len(m.Files) != 1 {
		return fmt.Errorf("a segment with %d files", len(m.Files))
	}
	s.seg++
	return s.table.Add(1, s.seg, m.Files[0], 1<<16)
}

// handle receives a handle into the segment that was announced last.
func (s *survivor) handle(ctx context.Context) error {
	m, err := s.c.Recv(ctx)
	if err != nil {
		return err
	}
	defer s.c.Release()
	if m.Kind != kindHandle || len(m.Body) != shm.HandleSize {
		return fmt.Errorf("kind %d with %d bytes, expected a handle", m.Kind, len(m.Body))
	}
	h := shm.GetHandle(m.Body)
	h.Segment = s.seg
	mem, err := s.table.Resolve(1, h)
	if err == nil && string(mem) != inSegment {
		err = fmt.Errorf("the segment holds %q", mem)
	}
	return err
}

// echoed makes a round trip with a process that is not the victim.
func echoed(ctx context.Context, c ipc.Conn) error {
	if _, err := c.Reserve(ctx, 7, 100); err != nil {
		return err
	}
	if err := c.Commit(); err != nil {
		return err
	}
	m, err := c.Recv(ctx)
	if err == nil && m.Kind != 7 {
		err = fmt.Errorf("kind %d", m.Kind)
	}
	if err == nil {
		c.Release()
	}
	return err
}

// own counts what this process holds: descriptors, goroutines, mappings of shared memory.
func own(t testing.TB) (n [3]int) {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	return [3]int{len(fds), runtime.NumGoroutine(), strings.Count(string(maps), "memfd:ringside")}
}

// TestKilledAtEveryStep kills a process at each step of the protocol, in either part. The
// other notices within 100 ms, has received nothing that was not sent, keeps its other
// conn, and holds nothing afterwards.
func TestKilledAtEveryStep(t *testing.T) {
	ctx := testContext(t)
	l, path := listen(t, nil)
	start(t, "echo", path)
	bystander := accept(t, ctx, l)
	counts := []int{1, 5}
	if testing.Short() {
		counts = counts[:1]
	}
	kills := 0
	before := own(t)
	for part, first := range handshakeSteps {
		for _, step := range append(first, steps...) {
			for _, count := range counts {
				if count > 1 && (strings.Contains(step, ":") || step == "files sent") {
					continue // happens once, or once a round
				}
				killAt(t, ctx, part, step, count)
				kills++
				if err := echoed(ctx, bystander); err != nil {
					t.Fatalf("%s killed at %q: the other conn: %v", part, step, err)
				}
			}
		}
	}
	after := own(t)
	for ctx.Err() == nil && (after[0] > before[0] || after[1] > before[1] || after[2] > before[2]) {
		runtime.GC() // mappings go with the collector
		after = own(t)
	}
	t.Logf("%d kills; leaked descriptors: %d, goroutines: %d, mappings: %d", kills,
		max(0, after[0]-before[0]), max(0, after[1]-before[1]), max(0, after[2]-before[2]))
	if ctx.Err() != nil {
		t.Errorf("%d descriptors, goroutines and mappings, %d before", after, before)
	}
}

// killAt has one process killed, and is its other end.
func killAt(t *testing.T, ctx context.Context, part, step string, count int) {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var l ipc.Listener
	var p *process
	dir := socketDir(t)
	path := dir + "/v"
	defer os.RemoveAll(dir)
	end := make(chan error, 1)
	o := &ipc.Options{RingBytes: ipc.MinRingBytes}
	if part == "dialer" {
		var err error
		if l, err = local.New().Listen(path, o); err != nil {
			t.Fatal(err)
		}
		defer l.Close()
	}
	p = start(t, "victim", part, path, step, strconv.Itoa(count))
	if part == "listener" {
		p.line(t)
	}
	go func() {
		var c ipc.Conn
		var err error
		if part == "dialer" {
			c, err = l.Accept(ctx)
		} else {
			c, err = local.New().Dial(ctx, path, o)
		}
		if err == nil {
			err = (&survivor{c: c, table: shm.NewTable(&shm.TableOptions{Sealed: true})}).drive(ctx)
		}
		end <- err
	}()
	_ = p.cmd.Wait()
	if ws := p.cmd.ProcessState.Sys().(syscall.WaitStatus); ws.Signal() != syscall.SIGKILL {
		t.Fatalf("%s was not killed at %q, time %d: %v", part, step, count, p.cmd.ProcessState)
	}
	if part == "dialer" && strings.HasPrefix(step, "dial:") {
		cancel() // there need not be a conn
	}
	select {
	case err := <-end:
		if !errors.Is(err, ipc.ErrPeerGone) && ctx.Err() == nil {
			t.Errorf("%s killed at %q: %v", part, step, err)
		}
	case <-time.After(noticed):
		cancel()
		t.Errorf("%s killed at %q: not noticed within %v: %v", part, step, noticed, <-end)
	}
}
