package worker_test

import (
	"testing"
	"time"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
	"github.com/ringside-go/ringside/tensor/cluster/worker"
	"github.com/ringside-go/ringside/tensor/cpu"
	"github.com/ringside-go/ringside/tensor/device"
)

// trims is a device that tells how many bytes it has after each Trim.
type trims struct {
	device.Device
	left chan int64
}

func (d trims) Trim(keep func(segment uint64) bool) {
	d.Device.Trim(keep)
	s := d.Stats()
	select {
	case d.left <- max(s.Arena.Bytes, s.Values.Bytes):
	default: // the test looks at later ones
	}
}

// TestTrimWhileSessionsOpen has workers look for unused memory all the time, while other
// goroutines of theirs connect them to each other and tell the dispatcher.
func TestTrimWhileSessionsOpen(t *testing.T) {
	d := startDuetWith(t, worker.Options{KeepUnused: 1})
	for id := range uint64(5) {
		if theirs := d.open(2+id, true); theirs != nil {
			theirs.Close() // the client does not take its connection
		}
		for _, w := range d.w {
			w.send(wire.KindCloseSession, wire.Append(nil, &wire.CloseSession{Session: 2 + id}))
		}
	}
}

// TestUnusedMemoryGoesBack wants the memory of a program's temporaries back although its
// session is open, and that of results when the session that has them mapped is closed.
func TestUnusedMemoryGoesBack(t *testing.T) {
	dev, err := cpu.New(&cpu.Options{Arena: worker.Checked()}) // which frees at once
	if err != nil {
		t.Fatal(err)
	}
	d := trims{dev, make(chan int64)}
	f := start(t, worker.Options{Device: d, KeepUnused: 3 * time.Millisecond})
	left := func() int64 {
		t.Helper()
		select {
		case n := <-d.left:
			return n
		case <-f.ctx.Done():
			t.Fatal("the worker does not look for unused memory")
			return 0
		}
	}
	until := func(bytes int64) {
		t.Helper()
		for n := left(); n != bytes; n = left() {
			if f.ctx.Err() != nil {
				t.Fatalf("the device keeps %d bytes, expected %d", n, bytes)
			}
		}
	}
	f.open(1, 0)
	big := f.program(true, func(x *tensor.Tensor) *tensor.Tensor {
		return x.Reshape(2, 1).Expand(2, 1<<20).Cumsum(1).Cumsum(0).Max()
	})
	f.body(1, big)
	for i := range uint64(2) { // a program finds its memory again
		base := 100 * (i + 1)
		f.batch(&wire.Run{Session: 1, Seq: i + 1, Hash: big.hash, Base: base, Uploads: []wire.Upload{floats(1, 1, 2)},
			Inputs: []uint64{1}, Frees: []uint64{1}})
		free := wire.Run{Session: 1, Seq: i + 10, Flags: wire.RunSync}
		for k := range uint64(20) { // the result is one of them
			free.Frees = append(free.Frees, base+k)
		}
		f.batch(&free)
		f.answer(wire.CodeOK, "")
		if n := f.dev.Stats().Runs; n != i+1 {
			t.Fatalf("%d programs ran, expected %d", n, i+1)
		}
		until(0)
	}
	// A client that has seen a segment keeps it mapped while its session is open.
	f.batch(&wire.Run{Session: 1, Seq: 20, Uploads: []wire.Upload{floats(2, 3, 4)}, Fetch: []uint64{2}})
	h := f.answer(wire.CodeOK, "").Results[0].Handle
	f.batch(&wire.Run{Session: 1, Seq: 21, Frees: []uint64{2}, Returns: []wire.Handle{h}, Flags: wire.RunSync})
	f.answer(wire.CodeOK, "")
	for range 5 {
		if n := left(); n == 0 {
			t.Fatal("a segment that the client has mapped is gone")
		}
	}
	f.send(wire.KindCloseSession, wire.Append(nil, &wire.CloseSession{Session: 1}))
	until(0)
}
