package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/local"
)

// A message's first byte is the client that it belongs to, so that the hub finds the way
// back.

// hopClient makes round trips and measures them.
func hopClient(a *actor) error {
	var m [messageBytes]byte
	if a.Kind == "unix" {
		return a.trips(func() error {
			if err := writeAll(3, m[:]); err != nil {
				return err
			}
			return readFull(3, m[:])
		})
	}
	ctx := context.Background()
	c, err := local.New().Dial(ctx, a.Addr, &ipc.Options{Hello: ipc.Peer{Role: ipc.RoleClient}})
	if err != nil {
		return err
	}
	defer c.Close()
	return a.trips(func() error {
		if err := sendConn(ctx, c, &m); err != nil {
			return err
		}
		return recvConn(ctx, c, &m)
	})
}

// hopWorker answers, after its work.
func hopWorker(a *actor) error {
	var m [messageBytes]byte
	var err error
	if a.Kind == "unix" {
		err = a.ready()
		for err == nil {
			if err = readFull(3, m[:]); err == nil {
				work(a.WorkUS)
				err = writeAll(3, m[:])
			}
		}
	} else {
		err = a.serve(&m)
	}
	return ended(err)
}

func (a *actor) serve(m *[messageBytes]byte) error {
	ctx := context.Background()
	c, err := local.New().Dial(ctx, a.Addr, &ipc.Options{Hello: ipc.Peer{Role: ipc.RoleWorker}})
	if err != nil {
		return err
	}
	defer c.Close()
	if err := a.ready(); err != nil {
		return err
	}
	for {
		if err := recvConn(ctx, c, m); err != nil {
			return err
		}
		work(a.WorkUS)
		if err := sendConn(ctx, c, m); err != nil {
			return err
		}
	}
}

// work keeps the core busy.
func work(us int) {
	for start := time.Now(); time.Since(start) < time.Duration(us)*time.Microsecond; {
	}
}

// ended is nil for the end of the others.
func ended(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, ipc.ErrPeerGone) || errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ECONNRESET) {
		return nil
	}
	return err
}

// hopHub forwards between clients and workers until the last client or any worker goes.
func hopHub(a *actor) error {
	if a.Kind == "unix" {
		if err := a.ready(); err != nil {
			return err
		}
		return ended(forwardBytes(a.Clients, a.Workers))
	}
	return ended(a.forwardConns())
}

// forwardConns has one goroutine and one Waiter, as a dispatcher has.
func (a *actor) forwardConns() error {
	ctx := context.Background()
	w, err := local.NewWaiter()
	if err != nil {
		return err
	}
	l, err := local.New().Listen(a.Addr, &ipc.Options{Waiter: w})
	if err != nil {
		return err
	}
	defer l.Close()
	if err := a.ready(); err != nil {
		return err
	}
	var clients, workers []ipc.Conn
	for len(clients)+len(workers) < a.Clients+a.Workers {
		c, err := l.Accept(ctx)
		if err != nil {
			return err
		}
		defer c.Close()
		if c.Peer().Role == ipc.RoleWorker {
			workers = append(workers, c)
		} else {
			clients = append(clients, c)
		}
	}
	all := append(append([]ipc.Conn(nil), clients...), workers...)
	gone := make([]bool, len(all))
	var failed error
	var m ipc.Message
	from := 0
	// ready looks at every conn once, beginning behind the one that was served last.
	ready := func() bool {
		for range all {
			if from++; from >= len(all) {
				from = 0
			}
			if gone[from] {
				continue
			}
			var ok bool
			if m, ok, failed = all[from].TryRecv(); ok || failed != nil {
				return true
			}
		}
		return false
	}
	for left := a.Clients; left > 0; {
		if !ready() {
			if err := w.Wait(ctx, ready); err != nil {
				return err
			}
		}
		if failed != nil {
			if from >= len(clients) || !errors.Is(failed, ipc.ErrPeerGone) {
				return failed
			}
			gone[from] = true
			left--
			continue
		}
		to := from % a.Workers
		if from < len(clients) {
			to += len(clients)
		} else if to = int(m.Body[0]); to >= len(clients) {
			return fmt.Errorf("answer for client %d of %d", to, len(clients))
		}
		body, err := all[to].Reserve(ctx, 1, len(m.Body))
		if err != nil {
			return err
		}
		copy(body, m.Body)
		if from < len(clients) {
			body[0] = byte(from)
		}
		all[from].Release()
		if err := all[to].Commit(); err != nil {
			return err
		}
	}
	return nil
}

// forwardBytes has the clients' sockets from descriptor 3 on, then the workers'. With one
// of each it knows which comes next and needs no poll.
func forwardBytes(clients, workers int) error {
	var m [messageBytes]byte
	if clients == 1 && workers == 1 {
		for {
			for _, way := range [2][2]int{{3, 4}, {4, 3}} {
				if err := readFull(way[0], m[:]); err != nil {
					return err
				}
				if err := writeAll(way[1], m[:]); err != nil {
					return err
				}
			}
		}
	}
	fds := make([]unix.PollFd, clients+workers)
	for i := range fds {
		fds[i] = unix.PollFd{Fd: int32(3 + i), Events: unix.POLLIN}
	}
	for left := clients; left > 0; {
		if _, err := unix.Poll(fds, -1); err != nil {
			if errors.Is(err, unix.EINTR) {
				continue
			}
			return err
		}
		for from := range fds {
			if fds[from].Revents == 0 {
				continue
			}
			if err := readFull(3+from, m[:]); err != nil {
				if from >= clients {
					return err
				}
				fds[from].Fd = -1
				left--
				continue
			}
			to := int(m[0])
			if from < clients {
				m[0] = byte(from)
				to = clients + from%workers
			} else if to >= clients {
				return fmt.Errorf("answer for client %d of %d", to, clients)
			}
			if err := writeAll(3+to, m[:]); err != nil {
				return err
			}
		}
	}
	return nil
}
