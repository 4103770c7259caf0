package local

import (
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

// bellPage is a page of bells of this process. It is unmapped when it can no longer be
// reached: its waiters may be woken at any time, by any goroutine.
type bellPage struct {
	seg        *shm.Segment
	data, room *ring.Bell
}

func newBellPage(st *steps) (*bellPage, error) {
	seg, err := shm.Create(bellPageSize, &shm.Options{Backing: shm.Memfd, Prefault: true})
	if err != nil {
		return nil, fmt.Errorf("local: page of bells: %w", err)
	}
	p := &bellPage{seg: seg}
	for _, b := range []struct {
		bell **ring.Bell
		off  int
	}{{&p.data, dataBell}, {&p.room, roomBell}} {
		mem := seg.Bytes()[b.off : b.off+ring.BellSize]
		err := ring.InitBell(mem)
		if err == nil {
			*b.bell, err = ring.NewBell(mem, st.futex())
		}
		if err != nil {
			seg.Close()
			return nil, fmt.Errorf("local: page of bells: %w", err)
		}
	}
	runtime.AddCleanup(p, func(seg *shm.Segment) { seg.Close() }, seg)
	return p, nil
}

// peerBells are the two bells of a peer.
type peerBells struct {
	seg        *shm.Segment
	data, room *ring.Bell
}

// openPeerBells maps a peer's page. f stays the caller's.
func openPeerBells(f *os.File, dataOff, roomOff uint32, st *steps) (b peerBells, err error) {
	if b.seg, err = shm.FromFile(0, f, bellPageSize, &shm.Options{Sealed: true}); err != nil {
		return b, fmt.Errorf("local: peer's page of bells: %w", err)
	}
	at := func(off uint32) *ring.Bell {
		if err != nil {
			return nil
		}
		if off > bellPageSize-ring.BellSize || off%ring.BellSize != 0 {
			err = fmt.Errorf("local: peer's bell at %d, expected a multiple of %d up to %d",
				off, ring.BellSize, bellPageSize-ring.BellSize)
			return nil
		}
		var bell *ring.Bell
		bell, err = ring.NewBell(b.seg.Bytes()[off:off+ring.BellSize], st.futex())
		return bell
	}
	b.data, b.room = at(dataOff), at(roomOff)
	if err != nil {
		b.seg.Close()
	}
	return b, err
}
