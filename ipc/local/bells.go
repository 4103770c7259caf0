package local

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"github.com/ringside-go/ringside/ring"
	"github.com/ringside-go/ringside/shm"
)

// A page of bells.
const (
	bellPageSize = 4096
	dataBell     = 0
	roomBell     = ring.BellSize
)

// bells are the two bells of an end, in a page of shared memory.
type bells struct {
	seg        *shm.Segment
	data, room *ring.Bell
}

// find finds the bells at their offsets in the page.
func (b *bells) find(dataOff, roomOff uint32, st *steps) (err error) {
	for _, at := range []struct {
		bell **ring.Bell
		off  uint32
	}{{&b.data, dataOff}, {&b.room, roomOff}} {
		if at.off > bellPageSize-ring.BellSize || at.off%ring.BellSize != 0 {
			return fmt.Errorf("bell at %d, expected a multiple of %d up to %d", at.off, ring.BellSize, bellPageSize-ring.BellSize)
		}
		if *at.bell, err = ring.NewBell(b.seg.Bytes()[at.off:at.off+ring.BellSize], st.futex()); err != nil {
			return err
		}
	}
	return nil
}

// bellPage is a page of bells of this process. It is unmapped when it can no longer be
// reached: its waiters may be woken at any time, by any goroutine.
type bellPage struct{ bells }

func newBellPage(st *steps) (*bellPage, error) {
	seg, err := shm.Create(bellPageSize, &shm.Options{Backing: shm.Memfd, Prefault: true})
	if err != nil {
		return nil, fmt.Errorf("local: page of bells: %w", err)
	}
	p := &bellPage{bells{seg: seg}}
	err = errors.Join(ring.InitBell(seg.Bytes()[dataBell:][:ring.BellSize]), ring.InitBell(seg.Bytes()[roomBell:][:ring.BellSize]))
	if err == nil {
		err = p.find(dataBell, roomBell, st)
	}
	if err != nil {
		seg.Close()
		return nil, fmt.Errorf("local: page of bells: %w", err)
	}
	runtime.AddCleanup(p, func(seg *shm.Segment) { seg.Close() }, seg)
	return p, nil
}

// openPeerBells maps a peer's page. f stays the caller's.
func openPeerBells(f *os.File, dataOff, roomOff uint32, st *steps) (b bells, err error) {
	if b.seg, err = shm.FromFile(0, f, bellPageSize, &shm.Options{Sealed: true}); err != nil {
		return b, fmt.Errorf("local: peer's page of bells: %w", err)
	}
	if err = b.find(dataOff, roomOff, st); err != nil {
		b.seg.Close()
		return b, fmt.Errorf("local: peer's %w", err)
	}
	return b, nil
}
