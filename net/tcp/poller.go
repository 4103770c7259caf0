package tcp

import (
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// poller tells when a socket can go on, once each time it is asked. It is an epoll whose
// descriptor waits in the runtime's own, so that it has no thread: its goroutine sleeps
// like any other.
type poller struct {
	epoll *os.File
	raw   syscall.RawConn

	mu      sync.Mutex
	targets map[uint32]target // by the number in the event
	next    uint32
	closed  chan struct{}
}

// target is what a registered socket has called.
type target struct {
	fire func() // at an event, by run
	beat func() // at every beat, by clock; nil for none
}

// newPoller starts a poller, which its close ends.
func newPoller(beatEvery time.Duration) (*poller, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("tcp: epoll: %w", err)
	}
	// what has os.NewFile give it to the runtime's epoll
	if err := unix.SetNonblock(fd, true); err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("tcp: epoll: %w", err)
	}
	p := &poller{epoll: os.NewFile(uintptr(fd), "epoll"), targets: map[uint32]target{}, closed: make(chan struct{})}
	if p.raw, err = p.epoll.SyscallConn(); err != nil {
		p.epoll.Close()
		return nil, fmt.Errorf("tcp: epoll: %w", err)
	}
	go p.run()
	go p.clock(beatEvery)
	return p, nil
}

// run calls what events are for, until the epoll is closed.
func (p *poller) run() {
	events := make([]unix.EpollEvent, 64)
	for {
		n := 0
		if err := p.raw.Read(func(fd uintptr) bool {
			var err error
			n, err = unix.EpollWait(int(fd), events, 0)
			return n > 0 || err != nil && err != unix.EINTR
		}); err != nil {
			return
		}
		for _, e := range events[:max(n, 0)] {
			p.mu.Lock()
			fire := p.targets[uint32(e.Fd)].fire
			p.mu.Unlock()
			if fire != nil { // else it was removed meanwhile
				fire()
			}
		}
	}
}

// clock calls the beats until the poller is closed.
func (p *poller) clock(every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	var all []func()
	for {
		select {
		case <-p.closed:
			return
		case <-tick.C:
		}
		all = all[:0]
		p.mu.Lock()
		for _, t := range p.targets {
			if t.beat != nil {
				all = append(all, t.beat)
			}
		}
		p.mu.Unlock()
		for _, beat := range all {
			beat()
		}
		clear(all)
	}
}

// add registers a socket, for nothing yet. t.fire is called once for each arm.
func (p *poller) add(s *socket, t target) (id uint32, err error) {
	p.mu.Lock()
	for id = p.next; p.targets[id].fire != nil; id++ {
	}
	p.next = id + 1
	p.targets[id] = t
	p.mu.Unlock()
	if err := p.control(unix.EPOLL_CTL_ADD, s, id, 0); err != nil {
		p.remove(id)
		return 0, err
	}
	return id, nil
}

// arm asks for one call when an event of mask can be, at once if it can be now.
func (p *poller) arm(s *socket, id, mask uint32) error {
	return p.control(unix.EPOLL_CTL_MOD, s, id, mask)
}

func (p *poller) control(op int, s *socket, id, mask uint32) error {
	if !s.enter() {
		return nil // its closer wakes the waits
	}
	defer s.leave()
	e := unix.EpollEvent{Events: mask | unix.EPOLLONESHOT, Fd: int32(id)}
	var err error
	if errControl := p.raw.Control(func(fd uintptr) { err = unix.EpollCtl(int(fd), op, s.fd, &e) }); errControl != nil {
		return errControl
	}
	if err != nil {
		return fmt.Errorf("tcp: epoll: %w", err)
	}
	return nil
}

// remove forgets a socket; the kernel does when its descriptor is closed.
func (p *poller) remove(id uint32) {
	p.mu.Lock()
	delete(p.targets, id)
	p.mu.Unlock()
}

func (p *poller) close() {
	close(p.closed)
	p.epoll.Close()
}
