package worker

import (
	"context"
	"errors"
	"os"
	"sync"
	"sync/atomic"

	"github.com/ringside-go/ringside/ipc"
)

// post is what the worker says to the dispatcher. Its own goroutine waits for room where there is none. The goroutines that make conns
// and groups can't: a waiter serves one. What they say is kept then, and sent by the worker's.
type post struct {
	mu   sync.Mutex // held from TryReserve to Commit
	left []letter   // of other goroutines, oldest first
	some atomic.Bool
}

// letter is a message that waits for room.
type letter struct {
	kind  uint32
	body  []byte
	files []*os.File // its own
}

// send sends one message of n bytes, and waits for room. It is called by the worker's goroutine alone.
func (w *Worker) send(ctx context.Context, kind uint32, n int, write func(dst []byte) []byte, files ...*os.File) error {
	err := w.trySend(kind, n, write, files...)
	if !errors.Is(err, ipc.ErrFull) {
		return err
	}
	if err := w.waiter.Wait(ctx, func() bool {
		err = w.trySend(kind, n, write, files...)
		return !errors.Is(err, ipc.ErrFull)
	}); err != nil {
		return err
	}
	return err
}

// trySend is send without the wait: ErrFull if there is no room, or older letters have none.
func (w *Worker) trySend(kind uint32, n int, write func(dst []byte) []byte, files ...*os.File) error {
	w.post.mu.Lock()
	defer w.post.mu.Unlock()
	if err := w.flush(); err != nil {
		return err
	}
	buf, err := w.conn.TryReserve(kind, n)
	if err != nil {
		return err
	}
	write(buf[:0])
	return w.conn.Commit(files...)
}

// say sends a message of n bytes, now or once there is room, and takes its files. Any goroutine may call it.
func (w *Worker) say(kind uint32, n int, write func(dst []byte) []byte, files ...*os.File) error {
	err := w.trySend(kind, n, write, files...)
	if !errors.Is(err, ipc.ErrFull) {
		ipc.CloseFiles(files)
		return err
	}
	w.post.mu.Lock()
	w.post.left = append(w.post.left, letter{kind, write(make([]byte, 0, n)), files})
	w.post.some.Store(true)
	w.post.mu.Unlock()
	w.waiter.Wake()
	return nil
}

// flush sends letters, all of them unless it returns an error. The lock is held.
func (w *Worker) flush() error {
	for len(w.post.left) > 0 {
		l := &w.post.left[0]
		buf, err := w.conn.TryReserve(l.kind, len(l.body))
		if err != nil {
			return err
		}
		copy(buf, l.body)
		if err := w.conn.Commit(l.files...); err != nil {
			return err
		}
		ipc.CloseFiles(l.files)
		w.post.left = w.post.left[1:]
	}
	w.post.some.Store(false)
	return nil
}

// deliver sends the letters for which there is room.
func (w *Worker) deliver() {
	if !w.post.some.Load() {
		return
	}
	w.post.mu.Lock()
	defer w.post.mu.Unlock()
	_ = w.flush() // that the dispatcher is gone is found by receiving
}
