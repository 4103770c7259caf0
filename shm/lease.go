package shm

import "fmt"

// Lease adds a reference on behalf of an owner, a process to which the block's
// handle is about to be sent. The same block may be leased to one owner several
// times. It ends with Unlease when the owner gives the block back, or with
// ReleaseOwner when the owner is gone: what a dead process held comes back.
//
// The caller holds a reference. After ReleaseOwner nothing may be leased to that owner
// again, since no call would end the lease.
func (a *Arena) Lease(b *Block, owner uint64) error {
	if b.home != home(a) {
		return fmt.Errorf("%w: %v is not a block of this arena", ErrUnknownSegment, b.handle)
	}
	b.Retain()
	a.mu.Lock()
	defer a.mu.Unlock()
	held := a.leases[owner]
	if held == nil {
		held = make(map[*Block]int)
		a.leases[owner] = held
	}
	held[b]++
	a.leased++
	return nil
}

// Unlease ends one lease of the owner on the block that the handle names. The
// handle came from the owner, so it is checked: ErrNotLeased when the owner holds
// no lease on that block, and the errors of Block.
func (a *Arena) Unlease(h Handle, owner uint64) error {
	a.mu.Lock()
	b, err := a.find(h)
	if err != nil {
		a.mu.Unlock()
		return err
	}
	held := a.leases[owner]
	n := held[b]
	if n == 0 {
		a.mu.Unlock()
		return fmt.Errorf("%w: %v, owner %d", ErrNotLeased, h, owner)
	}
	if n == 1 {
		delete(held, b)
	} else {
		held[b] = n - 1
	}
	a.leased--
	a.mu.Unlock()
	b.Release()
	return nil
}

// Leased returns the block that the handle names, with a reference for the caller, if the
// owner holds a lease on it: ErrNotLeased otherwise, and the errors of Block.
func (a *Arena) Leased(h Handle, owner uint64) (*Block, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	b, err := a.find(h)
	if err != nil {
		return nil, err
	}
	if a.leases[owner][b] == 0 {
		return nil, fmt.Errorf("%w: %v, owner %d", ErrNotLeased, h, owner)
	}
	b.Retain()
	return b, nil
}

// ReleaseOwner ends all leases of an owner and returns how many there were.
func (a *Arena) ReleaseOwner(owner uint64) int {
	a.mu.Lock()
	held := a.leases[owner]
	delete(a.leases, owner)
	total := 0
	for _, n := range held {
		total += n
	}
	a.leased -= total
	a.mu.Unlock()
	for b, n := range held {
		for range n {
			b.Release()
		}
	}
	return total
}
