package bench

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/local"
)

// hopHub forwards between clients and workers until the last client or any worker goes. A
// message's first byte is the client that it belongs to, so that the hub finds the way
// back.
func hopHub(a *actor) {
	if a.Kind == "raw" {
		a.ready()
		a.forwardBytes()
	} else {
		a.forwardConns()
	}
}

// forwardConns has one goroutine and one Waiter, as a dispatcher has.
func (a *actor) forwardConns() {
	ctx := context.Background()
	w := must(local.NewWaiter())
	l := must(local.New().Listen(a.Addr, &ipc.Options{Waiter: w}))
	defer l.Close()
	a.ready()
	all := make([]ipc.Conn, a.Clients+a.Workers) // the clients first
	client, worker := 0, a.Clients
	for range all {
		c := must(l.Accept(ctx))
		if c.Peer().Role == ipc.RoleWorker {
			all[worker] = c
			worker++
		} else {
			all[client] = c
			client++
		}
	}
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
			check(w.Wait(ctx, ready))
		}
		if failed != nil {
			if from >= a.Clients || !errors.Is(failed, ipc.ErrPeerGone) {
				check(failed)
			}
			gone[from] = true
			left--
			continue
		}
		to := a.toward(from, m.Body)
		body := must(all[to].Reserve(ctx, 1, len(m.Body)))
		copy(body, m.Body)
		a.name(from, body)
		all[from].Release()
		check(all[to].Commit())
	}
}

// toward returns where a message that came from there goes: of a client to one of the
// workers, and of a worker to the client that it names.
func (a *actor) toward(from int, m []byte) int {
	if from < a.Clients {
		return a.Clients + from%a.Workers
	}
	if int(m[0]) >= a.Clients {
		check(fmt.Errorf("answer for client %d of %d", m[0], a.Clients))
	}
	return int(m[0])
}

// name has a message of a client name it. It is called for the copy that goes on: a write
// to what came would take the line back from the sender's core.
func (a *actor) name(from int, m []byte) {
	if from < a.Clients {
		m[0] = byte(from)
	}
}

// forwardBytes has the clients' sockets from descriptor 3 on, then the workers'. With one
// of each it knows which comes next and needs no poll.
func (a *actor) forwardBytes() {
	var m [messageBytes]byte
	if a.Clients == 1 && a.Workers == 1 {
		untilGone(func() {
			for _, way := range [2][2]int{{3, 4}, {4, 3}} {
				check(readFull(way[0], m[:]))
				check(writeAll(way[1], m[:]))
			}
		})
		return
	}
	fds := make([]unix.PollFd, a.Clients+a.Workers)
	for i := range fds {
		fds[i] = unix.PollFd{Fd: int32(3 + i), Events: unix.POLLIN}
	}
	for left := a.Clients; left > 0; {
		if _, err := unix.Poll(fds, -1); err != nil && !errors.Is(err, unix.EINTR) {
			check(err)
		}
		for from := range fds {
			if fds[from].Revents == 0 {
				continue
			}
			if err := readFull(3+from, m[:]); err != nil {
				if from >= a.Clients {
					check(err)
				}
				fds[from].Fd = -1
				left--
				continue
			}
			to := a.toward(from, m[:])
			a.name(from, m[:])
			check(writeAll(3+to, m[:]))
		}
	}
}
