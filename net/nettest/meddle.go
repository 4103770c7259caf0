package nettest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const (
	tunDevice = "/dev/net/tun"

	// maxHeld is how long a Meddler holds a packet back, at most.
	maxHeld = 50 * time.Millisecond

	headerSize = 20 // of IPv4 and of TCP, each without options
	protoTCP   = 6
	flagRST    = 1 << 2
	flagACK    = 1 << 4
)

// Odds say how often a Meddler does a fault: to one packet in so many, at random. 0 is
// never.
type Odds map[Fault]int

// Meddler is the link between two hosts: it passes packets on, and meddles with those of
// TCP. A packet with a bit flipped has a right checksum, so that the kernel takes it for
// a good one. The kernels make good for packets that are lost, late or come twice; a
// connection that it cuts is reset.
type Meddler struct {
	odds Odds
	ends [2]*os.File

	mu   sync.Mutex
	rand *rand.Rand
	done map[Fault]int
	cut  map[flow]bool
}

// flow names a TCP connection: addresses and ports, those of the first host first.
type flow [12]byte

// Meddled is ForTest with a Meddler in the link, which the test's end closes.
func Meddled(t testing.TB, getenv func(string) string, odds Odds, seed uint64) ([2]*Host, *Meddler) {
	t.Helper()
	m := &Meddler{odds: odds, rand: rand.New(rand.NewPCG(seed, 23)), done: map[Fault]int{}, cut: map[flow]bool{}}
	hosts, err := m.pair(t.Context())
	t.Cleanup(m.close)
	forTest(t, getenv, hosts, err)
	for i := range m.ends {
		go m.pass(i)
	}
	return hosts, m
}

func (m *Meddler) pair(ctx context.Context) (hosts [2]*Host, err error) {
	return pair(ctx, func() (_ []ipCommand, err error) {
		for i := range hosts {
			if m.ends[i], err = tun(hosts[i].pid); err != nil {
				return nil, err
			}
		}
		return nil, nil
	}, &hosts)
}

// tun makes the device of the link in a process's network, and returns the file of its
// packets.
func tun(pid int) (f *os.File, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		// The thread is in the other network for good: it ends with this goroutine.
		runtime.LockOSThread()
		f, err = tunHere(pid)
	}()
	<-done
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w, and %s", ErrNotAllowed, tunDevice)
	}
	return f, err
}

func tunHere(pid int) (*os.File, error) {
	ns, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", pid))
	if err != nil {
		return nil, err
	}
	defer ns.Close()
	if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
		return nil, fmt.Errorf("nettest: setns: %w", err)
	}
	fd, err := unix.Open(tunDevice, unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("nettest: %s: %w", tunDevice, err)
	}
	request, err := unix.NewIfreq(Link)
	if err == nil {
		request.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, request)
	}
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("nettest: TUNSETIFF: %w", err)
	}
	return os.NewFile(uintptr(fd), tunDevice), nil
}

// Done returns how often each fault was done.
func (m *Meddler) Done() Odds {
	m.mu.Lock()
	defer m.mu.Unlock()
	done := Odds{}
	for f, n := range m.done {
		done[f] = n
	}
	return done
}

func (m *Meddler) close() {
	for _, f := range m.ends {
		if f != nil {
			f.Close()
		}
	}
}

// pass takes packets from a host to the other one, until the Meddler is closed.
func (m *Meddler) pass(from int) {
	buf := make([]byte, 64<<10)
	for {
		n, err := m.ends[from].Read(buf)
		if err != nil {
			return
		}
		m.packet(from, buf[:n])
	}
}

// packet passes one on. The kernel drops what it has no room for.
func (m *Meddler) packet(from int, p []byte) {
	to := m.ends[1-from]
	if len(p) < 2*headerSize || p[0] != 4<<4|headerSize/4 || p[9] != protoTCP || int(binary.BigEndian.Uint16(p[2:])) != len(p) {
		_, _ = to.Write(p)
		return
	}
	fault, bit, held := m.choose(from, p)
	switch fault {
	case Drop:
		return
	case Cut:
		// the end that sends on is told
		_, _ = m.ends[from].Write(reset(p))
		return
	case Flip:
		p[headerSize+bit/8] ^= 1 << (bit % 8)
		setTCPSum(p)
	case Repeat:
		_, _ = to.Write(p)
	case Delay:
		later := append([]byte(nil), p...)
		time.AfterFunc(held, func() { _, _ = to.Write(later) })
		return
	}
	_, _ = to.Write(p)
}

// choose decides on the fault of a packet, the bit that Flip changes, and how long Delay
// holds the packet.
func (m *Meddler) choose(from int, p []byte) (f Fault, bit int, held time.Duration) {
	a, b := 12, 16 // source and destination addresses
	pa, pb := headerSize, headerSize+2
	if from == 1 {
		a, b, pa, pb = b, a, pb, pa
	}
	var of flow
	copy(of[:], p[a:a+4])
	copy(of[4:], p[b:b+4])
	copy(of[8:], p[pa:pa+2])
	copy(of[10:], p[pb:pb+2])

	m.mu.Lock()
	defer m.mu.Unlock()
	if m.cut[of] {
		return Cut, 0, 0
	}
	for _, f := range Faults {
		if n := m.odds[f]; n > 0 && m.rand.IntN(n) == 0 {
			m.done[f]++
			if f == Cut {
				m.cut[of] = true
			}
			return f, m.rand.IntN(8 * (len(p) - headerSize)), time.Duration(m.rand.Int64N(int64(maxHeld)))
		}
	}
	return None, 0, 0
}

// reset is the answer to a packet that ends its sender's connection: RFC 9293, 3.5.2.
func reset(p []byte) []byte {
	r := append([]byte(nil), p[:2*headerSize]...)
	binary.BigEndian.PutUint16(r[2:], uint16(len(r)))
	copy(r[12:16], p[16:20])
	copy(r[16:20], p[12:16])
	tcp := r[headerSize:]
	copy(tcp[0:2], p[headerSize+2:headerSize+4])
	copy(tcp[2:4], p[headerSize:headerSize+2])
	copy(tcp[4:8], p[headerSize+8:headerSize+12]) // its number is the one that is awaited
	clear(tcp[8:12])
	tcp[12], tcp[13] = headerSize/4<<4, flagRST
	if p[headerSize+13]&flagACK == 0 { // a SYN has told no number that is awaited
		binary.BigEndian.PutUint32(tcp[8:], binary.BigEndian.Uint32(p[headerSize+4:])+1)
		tcp[13] |= flagACK
	}
	clear(tcp[14:20])
	clear(r[10:12])
	binary.BigEndian.PutUint16(r[10:], ^fold(sum(0, r[:headerSize])))
	setTCPSum(r)
	return r
}

// setTCPSum makes a packet's TCP checksum right.
func setTCPSum(p []byte) {
	tcp := p[headerSize:]
	clear(tcp[16:18])
	s := sum(uint32(protoTCP)+uint32(len(tcp)), p[12:20])
	binary.BigEndian.PutUint16(tcp[16:], ^fold(sum(s, tcp)))
}

// sum adds 16-bit words, the last one padded.
func sum(s uint32, b []byte) uint32 {
	for ; len(b) > 1; b = b[2:] {
		s += uint32(binary.BigEndian.Uint16(b))
	}
	if len(b) > 0 {
		s += uint32(b[0]) << 8
	}
	return s
}

func fold(s uint32) uint16 {
	for s > 0xffff {
		s = s>>16 + s&0xffff
	}
	return uint16(s)
}
