package cuda_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/ringside-go/ringside/collective/protocol"
	"github.com/ringside-go/ringside/collective/testsize"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cuda/cudatest"
	"github.com/ringside-go/ringside/tensor/cuda/driver"
	"github.com/ringside-go/ringside/tensor/cuda/fakecuda"
	"github.com/ringside-go/ringside/tensor/device"
)

// faulted is the member whose driver fails.
const faulted = 1

// maxWalked returns how many calls of one function fail at most. Where a round makes
// more, as of those about a thread's context and of those that look whether a stream has
// come to an event, they are spread over the round. The race detector sees the same code
// in fewer.
func maxWalked() int64 {
	if testsize.Raced {
		return 16
	}
	return 64
}

// fault is a call of a function that fails, counted from the beginning of a round.
type fault struct {
	function string
	n        int64
}

// walk is the calls of a function of which each fails in a round of its own.
type walk struct {
	function string
	step     int64 // from one to the next
}

// transfersFail has the members make links, exchange values and close the links, again
// and again. In each round one call of one member's driver fails: of each function each
// call that a round makes, or maxWalked of them.
func (m *member) transfersFail(ctx context.Context) error {
	counters := os.Getenv("FAKECUDA_COUNTERS")
	calls := func() map[string]uint64 { return m.api.(driver.Counted).CallsByName() }
	if _, err := m.round(ctx, fault{}); err != nil { // loads what all rounds use
		return err
	}
	before := calls()
	if _, err := m.round(ctx, fault{}); err != nil {
		return err
	}
	var walks []walk
	for name, n := range calls() {
		if n -= before[name]; n > 0 {
			walks = append(walks, walk{name, (int64(n) + maxWalked() - 1) / maxWalked()})
		}
	}
	slices.SortFunc(walks, func(a, b walk) int { return strings.Compare(a.function, b.function) })
	next, step, rounds := fault{}, int64(0), 0
	for {
		// The member that fails says which function is next, so that both end together.
		said := make([]byte, 64)
		if m.rank == faulted {
			if next.function == "" && len(walks) > 0 {
				next, step, walks = fault{walks[0].function, 1}, walks[0].step, walks[1:]
			}
			if next.function != "" {
				copy(said, fmt.Sprint(next.function, " ", next.n))
			}
		}
		all, err := m.meet(ctx)(said)
		if err != nil {
			return err
		}
		if all[faulted][0] == 0 {
			break
		}
		var f fault
		if _, err := fmt.Sscan(string(bytes.TrimRight(all[faulted], "\x00")), &f.function, &f.n); err != nil {
			return err
		}
		failed, err := m.round(ctx, f)
		if err != nil {
			return fmt.Errorf("call %d of %s fails: rank %d: %w", f.n, f.function, m.rank, err)
		}
		if rounds++; m.rank != faulted {
			continue
		}
		if next.n += step; !failed || next.n > maxWalked()*step {
			next = fault{}
		}
	}
	if m.rank == faulted {
		if err := fakecuda.Fail(counters, os.Getpid(), "", 0, 0); err != nil {
			return err
		}
	}
	if rounds < 50 {
		return fmt.Errorf("%d rounds, expected a call that fails in each of more", rounds)
	}
	fmt.Println("each call failed")
	return nil
}

// round is a round of transfersFail. It reports whether the fault came.
func (m *member) round(ctx context.Context, f fault) (failed bool, err error) {
	counters := os.Getenv("FAKECUDA_COUNTERS")
	before, err := fakecuda.ReadCounters(counters)
	if err != nil {
		return false, err
	}
	blocks := m.dev.Stats().Values.Blocks
	if m.rank == faulted {
		if err := fakecuda.Fail(counters, os.Getpid(), f.function, f.n, int64(driver.OutOfMemory)); err != nil {
			return false, err
		}
	}
	told, err := m.trades(ctx)
	if err != nil {
		return false, err
	}
	if failed, err = fakecuda.Failed(counters, os.Getpid()); err != nil {
		return false, err
	}
	if told != nil && (!failed || !strings.Contains(told.Error(), f.function)) {
		return failed, fmt.Errorf("%w, expected an error only where a call fails, and one that names it", told)
	}
	after, err := fakecuda.ReadCounters(counters)
	after.Allocations = before.Allocations // segments stay for the next values
	if failed {
		m.stays(&before, f.function)
		m.stays(&m.undestroyed, f.function)
	}
	if now := m.dev.Stats().Values.Blocks; err == nil && (after != before || now != blocks) {
		err = fmt.Errorf("after the round there are %+v and %d blocks, before there were %+v and %d (%w)", after, now, before, blocks, told)
	}
	return failed, err
}

// stays counts what stays after a function has failed that gives something back. An
// import is one with that of the group, which counts to the end.
func (m *member) stays(c *fakecuda.Counters, function string) {
	switch function {
	case "cuIpcCloseMemHandle":
		m.undestroyed.Imports = 1
	case "cuMemFree_v2": // segments don't count
	default:
		unreturned(c, function)
	}
}

// trades makes links, exchanges values twice and closes the links. told is what this
// member's driver refused, err any other mistake.
func (m *member) trades(ctx context.Context) (told, err error) {
	var l links
	obstacle := device.None
	for sender := range l {
		if obstacle == device.None {
			rank := (m.rank + sender) % 2
			if l[sender], obstacle, err = m.dev.Link(rank, m.meetAs(ctx, sender)); err != nil {
				return nil, err
			}
		}
	}
	s := m.dev.Open()
	var pairs [2]trade
	for i := range pairs {
		if obstacle == device.None {
			pairs[i] = trade{m: m, s: s, l: l, number: uint64(i)}
			if err := pairs[i].run(ctx); err != nil {
				return nil, err
			}
			told = errors.Join(told, pairs[i].told)
		}
	}
	for i := range pairs {
		if obstacle == device.None {
			// The link's stream has come past what follows the transfers by now.
			told = errors.Join(told, pairs[i].check(ctx))
			if pairs[i].wrong != nil {
				return nil, fmt.Errorf("%w (%w)", pairs[i].wrong, told)
			}
		}
	}
	s.Close()
	for _, l := range l {
		if l != nil {
			told = errors.Join(told, l.Close(m.meet(ctx)))
		}
	}
	return told, nil
}

// trade is an exchange of two values in each direction, in which calls may fail.
type trade struct {
	m      *member
	s      device.Space
	l      links
	number uint64

	told, wrong error
	kept        map[uint64][]byte // what values have to hold in the end
	received    map[uint64]int    // the values that were received, by their number
}

// tradeKind is the kind of the values: larger than those that stay on the host.
var tradeKind = device.Value{DType: tensor.F32, Shape: tensor.Shape{9000}}

// noise returns a value of a trade.
func (t *trade) noise(sender, k int) []byte {
	return noise(tradeKind.DType, tradeKind.Shape.Elems(), 2*t.number+uint64(k), uint64(sender))
}

// make makes a value of those bytes.
func (t *trade) make(id uint64, b []byte) error {
	id += 100 * t.number
	err := t.s.Make(id, tradeKind.DType, tradeKind.Shape)
	if err == nil {
		err = t.s.Fill(id, b)
	}
	if err == nil {
		t.kept[id] = b
	}
	t.told = errors.Join(t.told, err)
	return err
}

// run exchanges the values. Memory is given to other values as soon as it may be.
func (t *trade) run(ctx context.Context) error {
	m, s, base := t.m, t.s, 100*t.number
	t.kept, t.received = map[uint64][]byte{}, map[uint64]int{}
	var all [2][2]device.Transfer // by sender
	for sender := range all {
		for k := range all[sender] {
			x := device.Collective{Kind: protocol.Recv, DType: tradeKind.DType, Shape: tradeKind.Shape}
			if sender == m.rank {
				x.Kind, x.In = protocol.Send, base+uint64(1+k)
				x.Failed = t.make(uint64(1+k), t.noise(sender, k)) != nil
			}
			var err error
			all[sender][k], err = t.l[sender].Start(s, &x)
			t.told = errors.Join(t.told, err)
			delete(t.kept, x.In)
			if k == 1 { // the other value exists until its transfer has ended
				s.Free(x.In)
			}
		}
	}
	for sender := range all {
		for k, x := range all[sender] {
			err := x.Run(m.meetAs(ctx, sender))
			t.told = errors.Join(t.told, err)
			id := uint64(20 + k)
			if sender != m.rank && err == nil && t.told == nil {
				err = x.Finish(base + id)
				t.told = errors.Join(t.told, err)
				if err == nil {
					t.received[base+id] = k
					continue
				}
			} else {
				x.Drop()
				if sender == m.rank {
					s.Free(base + uint64(1+k))
				}
			}
			// This has the memory that was given back.
			_ = t.make(uint64(40+10*sender+k), noise(tradeKind.DType, tradeKind.Shape.Elems(), 7, uint64(k)))
		}
	}
	return nil
}

// check compares the values with what they have to hold. The error is of the driver.
func (t *trade) check(ctx context.Context) error {
	lost := []byte{0}
	if t.told != nil {
		lost[0] = 1
	}
	all, err := t.m.meet(ctx)(lost)
	if err != nil {
		t.wrong = err
		return nil
	}
	var told error
	read := func(id uint64, want ...[]byte) {
		got, err := t.s.Read(id, 0, tradeKind.Bytes())
		if err != nil {
			told = errors.Join(told, err)
			return
		}
		if !slices.ContainsFunc(want, func(w []byte) bool { return bytes.Equal(w, got) }) && t.wrong == nil {
			t.wrong = fmt.Errorf("value %d of trade %d holds other bytes: %x..., expected %x...", id, t.number, got[:8], want[0][:8])
		}
	}
	for _, id := range slices.Sorted(maps.Keys(t.kept)) {
		read(id, t.kept[id])
	}
	for _, id := range slices.Sorted(maps.Keys(t.received)) {
		want := [][]byte{t.noise(1-t.m.rank, t.received[id])}
		if all[1-t.m.rank][0] != 0 {
			want = append(want, make([]byte, tradeKind.Bytes()))
		}
		read(id, want...)
	}
	return told
}

// TestLinkFaults has each call of one member's driver fail once, while it makes links,
// sends and receives. No value changes, nothing stays, an error names the call, and the
// same links send and receive after it.
func TestLinkFaults(t *testing.T) {
	if testing.Short() {
		t.Skip("every call fails once: 20 s")
	}
	// The other member is late to write what it sends and to read what it is sent.
	t.Setenv("FAKECUDA_DELAY_US", "3000")
	for r, p := range members(t, cudatest.Library(t, os.Getenv), 2, "transfers-fail", alternate, "FAKECUDA_DELAY_US=0") {
		if said := p.rest(); said != "each call failed\nnothing left\n" {
			t.Errorf("rank %d said %q", r, said)
		}
	}
}
