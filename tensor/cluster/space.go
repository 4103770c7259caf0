package cluster

import (
	"cmp"
	"fmt"
	"runtime"

	"github.com/ringside-go/ringside/shm/limits"
)

const (
	// spaceOfChild and spaceOfCore are how much address space a child takes after it has
	// begun, in bytes: for its first segments, what is kept free, and some threads with
	// their stacks and heaps of the C library, a few of them for each core. On a busy
	// machine, which has more threads wait, a quarter of it was too little at times.
	spaceOfChild, spaceOfCore = 512 << 20, 128 << 20
)

// fitSpace returns ErrSpace where children that use so many cores have too little address
// space: the Go runtime would end one, or it would find none for a session.
func fitSpace(m limits.Machine, cores int) error {
	if err := m.Child(spaceOfChild + spaceOfCore*int64(cores)); err != nil {
		return fmt.Errorf("%w: %w", ErrSpace, err)
	}
	return nil
}

// checkSpace is fitSpace for the children of c, after fitThreads.
func (c *Cluster) checkSpace() error {
	return fitSpace(limits.Machine{}, cmp.Or(c.cores, runtime.NumCPU()))
}
