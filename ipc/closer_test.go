package ipc

import (
	"io"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// stuck is a file whose close waits until end is closed.
type stuck struct {
	began chan<- struct{}
	end   <-chan struct{}
	done  *sync.WaitGroup
}

func (s stuck) Close() error {
	s.began <- struct{}{}
	<-s.end
	s.done.Done()
	return nil
}

// TestClosesWithFewThreads has a process with few threads left: some stay.
func TestClosesWithFewThreads(t *testing.T) {
	for _, c := range []struct{ left, most int }{
		{0, fewClosing}, {keptThreads, fewClosing}, {keptThreads + 3, fewClosing + 3}, {1 << 40, maxClosing},
	} {
		var x closer
		x.threads = func() int { return c.left - (x.running - fewClosing) }
		began, end := make(chan struct{}, maxClosing+1), make(chan struct{})
		var done sync.WaitGroup
		done.Add(maxClosing + 1)
		for range maxClosing + 1 {
			x.close(closing{file: stuck{began, end, &done}})
		}
		x.mu.Lock()
		running := x.running
		x.mu.Unlock()
		if running != c.most {
			t.Errorf("%d threads are left: %d closes wait at a time, expected %d", c.left, running, c.most)
		}
		close(end)
		done.Wait()
	}
}

// TestClosesThatWait has more closes wait than the closer has goroutines. The rest begin
// when one ends, all end, and memory is closed meanwhile.
func TestClosesThatWait(t *testing.T) {
	const more = 10
	began, end := make(chan struct{}, maxClosing+more), make(chan struct{})
	var done sync.WaitGroup
	done.Add(maxClosing + more)
	for range maxClosing + more {
		CloseSocket(stuck{began, end, &done})
	}
	for range maxClosing {
		<-began
	}
	fd, err := unix.MemfdCreate("closed", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		t.Fatal(err)
	}
	memory := os.NewFile(uintptr(fd), "memory")
	other, writes, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	CloseFiles([]*os.File{memory, writes})
	closed := time.Now().Add(30 * time.Second)
	for isMemory(memory) {
		if time.Now().After(closed) {
			t.Fatal("memory is not closed while others wait")
		}
		runtime.Gosched()
	}
	select {
	case <-began:
		t.Errorf("more than %d closes wait at a time", maxClosing)
	default:
	}
	close(end)
	done.Wait()
	// The end of the pipe says that its turn came too.
	if n, err := other.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Errorf("Read: %d, %v, expected the end of the file", n, err)
	}
	other.Close()
}
