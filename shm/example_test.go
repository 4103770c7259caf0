package shm_test

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/ringside-go/ringside/shm"
)

// A process reads in place the bytes that another writes: it is sent the segment's
// descriptor once, and then only handles.
func Example() {
	const me, peer = 1, 2
	table := shm.NewTable(&shm.TableOptions{Sealed: true}) // the reader's

	announce := func(s *shm.Segment) { // over a unix socket, with the descriptor
		fd, err := unix.Dup(int(s.File().Fd()))
		if err != nil {
			fmt.Println(err)
			return
		}
		if err := table.Add(me, s.ID(), os.NewFile(uintptr(fd), "segment"), s.Size()); err != nil {
			fmt.Println(err)
		}
	}
	arena, err := shm.NewArena(&shm.ArenaOptions{
		Segment:   shm.Options{Backing: shm.Memfd, PeersRead: true},
		OnSegment: announce,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer arena.Close()
	defer table.Close()

	// The writer.
	b, err := arena.Alloc(5)
	if err != nil {
		fmt.Println(err)
		return
	}
	copy(b.Bytes(), "hello")
	// it stays until the peer gives it back, or is gone
	if err := arena.Lease(b, peer); err != nil {
		fmt.Println(err)
		return
	}
	var sent [shm.HandleSize]byte
	b.Handle().Put(sent[:])
	b.Release()

	// The reader.
	h := shm.GetHandle(sent[:])
	mem, err := table.Open(me, h)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s, read only: %v\n", mem.Bytes(), mem.ReadOnly())
	mem.Release()

	// The writer again.
	fmt.Println("in use:", arena.Stats().Blocks)
	if err := arena.Unlease(h, peer); err != nil {
		fmt.Println(err)
	}
	fmt.Println("in use:", arena.Stats().Blocks)
	// Output:
	// hello, read only: true
	// in use: 1
	// in use: 0
}
