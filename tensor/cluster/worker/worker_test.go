package worker_test

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/ipctest"
	"github.com/ringside-go/ringside/shm"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
	"github.com/ringside-go/ringside/tensor/cluster/worker"
	"github.com/ringside-go/ringside/tensor/cpu"
	"github.com/ringside-go/ringside/tensor/device"
)

// TestMalformed checks that each mistake ends its session with a text that names it, and
// nothing else.
func TestMalformed(t *testing.T) {
	add := start(t, worker.Options{}).program(false, func(x *tensor.Tensor) *tensor.Tensor { return x.AddS(1) })
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	const s = 7
	run := func(f *fixture, m wire.Run) { m.Session = s; f.batch(&m) }
	for what, c := range map[string]struct {
		do   func(f *fixture)
		text string
	}{
		"unknown kind":   {func(f *fixture) { f.send(77, message(s)) }, "kind 77"},
		"an answer":      {func(f *fixture) { f.send(wire.KindDone, message(s)) }, "Done"},
		"half a run":     {func(f *fixture) { f.send(wire.KindRun, message(s, 1, 2, 3)) }, "Run"},
		"half a body":    {func(f *fixture) { f.send(wire.KindBody, message(s, 1, 2, 3)) }, "Body"},
		"half a segment": {func(f *fixture) { f.send(wire.KindSegment, message(s, 1, 2, 3)) }, "Segment"},
		"segment without descriptor": {func(f *fixture) {
			f.send(wire.KindSegment, wire.Append(nil, &wire.Segment{Session: s, ID: 5, Bytes: 4096}))
		}, "0 descriptors"},
		"segment of a device": {func(f *fixture) {
			f.send(wire.KindSegment, wire.Append(nil, &wire.Segment{Session: s, ID: 5, Bytes: 4096}), null)
		}, "regular file"},
		"segment of GPU memory": {func(f *fixture) {
			f.send(wire.KindSegment, wire.Append(nil, &wire.Segment{Session: s, ID: 5, Bytes: 4096, Memory: wire.MemoryCUDA}), null)
		}, "memory 1"},
		"segment larger than its file": {func(f *fixture) {
			seg := f.segment(s, 4096)
			f.send(wire.KindSegment, wire.Append(nil, &wire.Segment{Session: s, ID: 5, Bytes: 1 << 30}), seg.File())
		}, "1073741824"},
		"segment twice": {func(f *fixture) {
			seg := f.segment(s, 4096)
			f.send(wire.KindSegment, wire.Append(nil, &wire.Segment{Session: s, ID: seg.ID(), Bytes: 4096}), seg.File())
		}, "exists"},
		"segments without end": {func(f *fixture) {
			seg := f.segment(s, 4096)
			for id := range uint64(512) {
				f.send(wire.KindSegment, wire.Append(nil, &wire.Segment{Session: s, ID: id, Bytes: 4096}), seg.File())
			}
		}, "at most 512"},
		"body of another hash": {func(f *fixture) {
			f.body(s, program{wire.Hash{1}, add.encoded})
		}, "came as"},
		"body out of order": {func(f *fixture) {
			f.send(wire.KindBody, wire.Append(nil, &wire.Body{Session: s, Hash: add.hash, Total: 100, Off: 50, Part: make([]byte, 50)}))
		}, "part at 50"},
		"unknown program": {func(f *fixture) { run(f, wire.Run{Seq: 1, Hash: wire.Hash{9}}) }, "never sent"},
		"too few inputs": {func(f *fixture) {
			f.body(s, add)
			run(f, wire.Run{Seq: 1, Hash: add.hash, Scalars: []float64{1}})
		}, "0 inputs and 1 scalars, expected 1 and 1"},
		"too few scalars": {func(f *fixture) {
			f.body(s, add)
			run(f, wire.Run{Seq: 1, Hash: add.hash, Inputs: []uint64{1}})
		}, "1 inputs and 0 scalars, expected 1 and 1"},
		"dtype": {func(f *fixture) {
			u := floats(1, 1)
			u.DType = 200
			run(f, wire.Run{Seq: 1, Uploads: []wire.Upload{u}})
		}, "dtype 200"},
		"too few bytes": {func(f *fixture) {
			u := floats(1, 1)
			u.Dims = []int{2}
			run(f, wire.Run{Seq: 1, Uploads: []wire.Upload{u}})
		}, "4 bytes, expected 8"},
		"no bytes": {func(f *fixture) {
			u := floats(1, 1)
			u.Inline = []byte{}
			run(f, wire.Run{Seq: 1, Uploads: []wire.Upload{u}})
		}, "0 bytes, expected 4"},
		"too many elements": {func(f *fixture) {
			u := floats(1, 1)
			u.Dims = []int{1 << 31, 1 << 30}
			run(f, wire.Run{Seq: 1, Uploads: []wire.Upload{u}})
		}, "upload 1"},
		"same id": {func(f *fixture) {
			run(f, wire.Run{Seq: 1, Uploads: []wire.Upload{floats(1, 1), floats(1, 2)}})
		}, "upload 1 exists"},
		"handle into nothing": {func(f *fixture) {
			run(f, wire.Run{Seq: 1, Uploads: []wire.Upload{{ID: 1, Value: wire.Value{DType: 1, Dims: []int{1}, Handle: wire.Handle{Segment: 5, Len: 4}}}}})
		}, "unknown segment"},
		"handle beyond the end": {func(f *fixture) {
			seg := f.segment(s, 4096)
			run(f, wire.Run{Seq: 1, Uploads: []wire.Upload{byHandle(1, seg, 4096-64, 17)}})
		}, "out of bounds"},
		"handle that overflows": {func(f *fixture) {
			seg := f.segment(s, 4096)
			run(f, wire.Run{Seq: 1, Uploads: []wire.Upload{byHandle(1, seg, math.MaxUint64-63, 16)}})
		}, "out of bounds"},
		"handle not aligned": {func(f *fixture) {
			seg := f.segment(s, 4096)
			run(f, wire.Run{Seq: 1, Uploads: []wire.Upload{byHandle(1, seg, 4, 1)}})
		}, "aligned"},
		"lease that is none": {func(f *fixture) {
			run(f, wire.Run{Seq: 1, Returns: []wire.Handle{{Segment: 1, Len: 1}}})
		}, "given back"},
		"prediction from nothing": {func(f *fixture) {
			h := &wire.History{}
			m := wire.Run{Session: s, Seq: 1, Inputs: []uint64{1, 2, 3}}
			h.Record(&m)
			f.send(wire.KindRun, wire.AppendRun(nil, &m, h))
		}, "predicted"},
	} {
		t.Run(what, func(t *testing.T) {
			f := start(t, worker.Options{})
			f.open(s, 0)
			f.batch(&wire.Run{Session: s, Seq: 100, Uploads: []wire.Upload{floats(1000, 1, 2)}, Flags: wire.RunSync})
			f.answer(wire.CodeOK, "")
			c.do(f)
			f.failed(s, wire.CodeProtocol, c.text)
			f.send(wire.KindRun, message(s, 1)) // it does not know yet
			f.healthy(s + 1)
			if st := f.w.Stats(); st.Failed != 1 {
				t.Errorf("%+v", st)
			}
		})
	}
}

func message(session uint64, more ...byte) []byte {
	return append(binary.LittleEndian.AppendUint64(nil, session), more...)
}

// TestOtherSession checks that values, segments, leases and programs of one session do
// not exist for another.
func TestOtherSession(t *testing.T) {
	f := start(t, worker.Options{})
	f.open(1, 0)
	f.open(2, 0)
	seg := f.segment(1, 4096)
	p := f.program(false, func(x *tensor.Tensor) *tensor.Tensor { return x.AddS(1) })
	f.body(1, p)
	f.batch(&wire.Run{Session: 1, Seq: 1, Hash: p.hash, Base: 50, Uploads: []wire.Upload{byHandle(5, seg, 64, 2)},
		Inputs: []uint64{5}, Scalars: []float64{1}, Fetch: []uint64{50}})
	lease := f.answer(wire.CodeOK, "").Results[0].Handle
	f.batch(&wire.Run{Session: 2, Seq: 1, Fetch: []uint64{5}})
	f.answer(wire.CodeUnknownID, "5")
	f.batch(&wire.Run{Session: 2, Seq: 2, Returns: []wire.Handle{lease}})
	f.failed(2, wire.CodeProtocol, "not leased")
	f.open(3, 0)
	f.batch(&wire.Run{Session: 3, Seq: 1, Uploads: []wire.Upload{byHandle(5, seg, 64, 2)}})
	f.failed(3, wire.CodeProtocol, "unknown segment")
	f.open(4, 0)
	f.batch(&wire.Run{Session: 4, Seq: 1, Hash: p.hash, Inputs: []uint64{5}, Scalars: []float64{1}})
	f.failed(4, wire.CodeProtocol, "never sent")
	f.batch(&wire.Run{Session: 1, Seq: 2, Returns: []wire.Handle{lease}, Fetch: []uint64{5}})
	if d := f.answer(wire.CodeOK, ""); (d.Results[0].Handle == wire.Handle{Segment: seg.ID(), Off: 64, Len: 8}) != worker.InPlace() {
		t.Errorf("an upload is read at %v", d.Results[0].Handle)
	}
}

// TestFailedBatch checks that a batch that fails makes nothing but its uploads, and frees
// the values that it was to free.
func TestFailedBatch(t *testing.T) {
	f := start(t, worker.Options{})
	f.open(1, 0)
	seg := f.segment(1, 4096)
	p := f.program(true, func(x *tensor.Tensor) *tensor.Tensor { return x.AddS(1) })
	f.body(1, p)
	f.batch(&wire.Run{Session: 1, Seq: 1, Uploads: []wire.Upload{floats(1, 1, 2), floats(2, 3, 4), floats(3, 5, 6)}})
	// The program fails, or a fetch after it.
	for i, m := range []*wire.Run{
		{Hash: p.hash, Inputs: []uint64{99}, Scalars: []float64{1}},
		{Hash: p.hash, Inputs: []uint64{2}, Scalars: []float64{1}, Fetch: []uint64{200, 99}},
	} {
		base, up := uint64(100*(i+1)), uint64(10*(i+1))
		m.Session, m.Seq, m.Base = 1, uint64(i+2), base
		m.Uploads = []wire.Upload{byHandle(up, seg, 0, 2), byHandle(up+1, seg, 64, 2)}
		m.Frees = []uint64{uint64(1 + 2*i)}
		f.batch(m)
		d := f.answer(wire.CodeUnknownID, "99")
		returned := len(d.Returned)
		if len(d.Results) != 0 || returned != 0 && worker.InPlace() {
			t.Errorf("%+v", d)
		}
		gone := []uint64{uint64(1 + 2*i), base}
		if i == 1 { // a fetch that fails leaves the results of its program
			gone = gone[:1]
			f.batch(&wire.Run{Session: 1, Seq: 9, Frees: []uint64{base}})
		}
		for _, id := range gone {
			f.batch(&wire.Run{Session: 1, Seq: 9, Fetch: []uint64{id}})
			returned += len(f.answer(wire.CodeUnknownID, "").Returned)
		}
		f.batch(&wire.Run{Session: 1, Seq: 10, Fetch: []uint64{up, up + 1}})
		d = f.answer(wire.CodeOK, "")
		if len(d.Results) != 2 || (d.Results[1].Handle == wire.Handle{Segment: seg.ID(), Off: 64, Len: 8}) != worker.InPlace() {
			t.Errorf("uploads of a failed batch: %+v", d)
		}
		var leases []wire.Handle
		for _, r := range d.Results {
			if r.Handle.Segment != seg.ID() {
				leases = append(leases, r.Handle)
			}
		}
		returned += len(d.Returned)
		if returned != 0 && worker.InPlace() {
			t.Errorf("%d uploads are given back before they are freed", returned)
		}
		f.batch(&wire.Run{Session: 1, Seq: 11, Frees: []uint64{up, up + 1}, Returns: leases, Flags: wire.RunSync})
		if d := f.answer(wire.CodeOK, ""); returned+len(d.Returned) != 2 {
			t.Errorf("%d uploads are given back, and then %+v", returned, d)
		}
	}
	if n := f.dev.Arena().Stats(); n.Leases != 0 || n.Blocks > 1 {
		t.Errorf("%d leases and %d blocks are left", n.Leases, n.Blocks)
	}
}

// TestFailedUpload checks that of several uploads the one that does not fit is given
// back, that the others exist, and that the program does not run.
func TestFailedUpload(t *testing.T) {
	f := start(t, worker.Options{})
	f.open(1, 1000)
	seg := f.segment(1, 1<<16)
	p := f.program(true, func(x *tensor.Tensor) *tensor.Tensor { return x.AddS(1) })
	f.body(1, p)
	f.batch(&wire.Run{Session: 1, Seq: 1, Uploads: []wire.Upload{floats(1, 1, 2)}})
	f.batch(&wire.Run{Session: 1, Seq: 2, Hash: p.hash, Base: 50, Inputs: []uint64{1}, Scalars: []float64{1},
		Uploads: []wire.Upload{byHandle(10, seg, 0, 16), byHandle(11, seg, 64, 1000), byHandle(12, seg, 8192, 16)}})
	d := f.answer(wire.CodeQuota, "4000 bytes, the session has 72 of at most 1000")
	if back := (wire.Handle{Segment: seg.ID(), Off: 64, Len: 4000}); len(d.Returned) != 1 && worker.InPlace() || !slices.Contains(d.Returned, back) {
		t.Errorf("given back: %v", d.Returned)
	}
	for _, id := range []uint64{1, 11, 50} { // 1 was donated
		f.batch(&wire.Run{Session: 1, Seq: 3, Fetch: []uint64{id}})
		f.answer(wire.CodeUnknownID, "")
	}
	f.batch(&wire.Run{Session: 1, Seq: 3, Fetch: []uint64{10, 12}})
	f.answer(wire.CodeOK, "")
	f.batch(&wire.Run{Session: 1, Seq: 3, Frees: []uint64{10, 12}})
	f.batch(&wire.Run{Session: 1, Seq: 4, Uploads: []wire.Upload{byHandle(13, seg, 0, 250)}, Flags: wire.RunSync})
	f.answer(wire.CodeOK, "") // all of the quota is free
}

// TestRunError checks that an error names the instruction that failed.
func TestRunError(t *testing.T) {
	f := start(t, worker.Options{})
	f.open(1, 0)
	p := f.program(false, func(x *tensor.Tensor) *tensor.Tensor {
		return x.AddS(1).IndexSelect(0, x.Cast(tensor.I64).MulS(40))
	})
	f.body(1, p)
	f.batch(&wire.Run{Session: 1, Seq: 1, Hash: p.hash, Base: 50, Uploads: []wire.Upload{floats(1, 1, 2)}, Inputs: []uint64{1}, Scalars: []float64{1, 40}, Flags: wire.RunSync})
	if d := f.answer(wire.CodeIndex, "40"); d.At != 4 || d.Op != "index_select" || !strings.Contains(d.Inputs, "f32[2]") {
		t.Errorf("%+v", d)
	}
	bad := program{encoded: []byte("this is no program")}
	bad.hash = wire.Hash(tensor.HashOf(bad.encoded))
	f.body(1, bad)
	f.batch(&wire.Run{Session: 1, Seq: 2, Hash: bad.hash, Uploads: []wire.Upload{floats(2, 1, 2)}})
	f.answer(wire.CodeBadProgram, "18 bytes")
	f.batch(&wire.Run{Session: 1, Seq: 3, Fetch: []uint64{1}})
	f.answer(wire.CodeOK, "") // the upload of the batch that failed
}

// TestGivenBack checks that uploads are given back with any answer, and without being
// asked when there are many.
func TestGivenBack(t *testing.T) {
	f := start(t, worker.Options{})
	f.open(1, 0)
	seg := f.segment(1, 1<<20)
	const n = 500
	for i := range uint64(n) {
		f.batch(&wire.Run{Session: 1, Seq: i + 1, Uploads: []wire.Upload{byHandle(i+1, seg, 64*i, 3)}, Frees: []uint64{i + 1}})
	}
	f.batch(&wire.Run{Session: 1, Seq: n + 1, Flags: wire.RunSync})
	seen := map[uint64]bool{}
	answers := 0
	for last := uint64(0); last < n+1; answers++ {
		d := f.answer(wire.CodeOK, "")
		for _, h := range d.Returned {
			if h.Segment != seg.ID() || h.Len != 12 || seen[h.Off] {
				t.Fatalf("%v came back", h)
			}
			seen[h.Off] = true
		}
		last = d.Seq
	}
	if len(seen) != n || answers < 2 || answers > 4 {
		t.Errorf("%d of %d came back in %d answers", len(seen), n, answers)
	}
}

// TestDisappears checks that a client that shrinks the file behind its memory gets an
// error, and that another client does not notice.
func TestDisappears(t *testing.T) {
	f := start(t, worker.Options{AllowUnsealed: true})
	f.open(1, 0)
	f.open(2, 0)
	seg, err := shm.Create(1<<20, &shm.Options{Backing: shm.Tmpfs})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { seg.Close() })
	f.send(wire.KindSegment, wire.Append(nil, &wire.Segment{Session: 1, ID: seg.ID(), Bytes: uint64(seg.Size())}), seg.File())
	f.batch(&wire.Run{Session: 1, Seq: 1, Uploads: []wire.Upload{byHandle(1, seg, 1<<16, 2)}, Flags: wire.RunSync})
	f.answer(wire.CodeOK, "")
	if err := seg.File().Truncate(0); err != nil {
		t.Fatal(err)
	}
	p := f.program(false, func(x *tensor.Tensor) *tensor.Tensor { return x.AddS(1) })
	f.body(1, p)
	f.batch(&wire.Run{Session: 1, Seq: 2, Hash: p.hash, Base: 50, Inputs: []uint64{1}, Scalars: []float64{1}, Flags: wire.RunSync})
	if worker.InPlace() {
		f.answer(wire.CodeEngine, "internal error")
	} else {
		f.answer(wire.CodeOK, "") // it has a copy
	}
	f.body(2, p)
	f.batch(&wire.Run{Session: 2, Seq: 1, Hash: p.hash, Base: 50, Uploads: []wire.Upload{floats(1, 1, 2)}, Inputs: []uint64{1}, Scalars: []float64{1}, Fetch: []uint64{50}})
	f.answer(wire.CodeOK, "")
	f.healthy(3)
}

// TestUnsealed checks that memory which its owner could shrink is not mapped.
func TestUnsealed(t *testing.T) {
	f := start(t, worker.Options{})
	f.open(1, 0)
	seg, err := shm.Create(1<<20, &shm.Options{Backing: shm.Tmpfs})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { seg.Close() })
	f.send(wire.KindSegment, wire.Append(nil, &wire.Segment{Session: 1, ID: seg.ID(), Bytes: uint64(seg.Size())}), seg.File())
	f.failed(1, wire.CodeProtocol, "not sealed")
	f.healthy(2)
}

// panicking is a device with a bug.
type panicking struct{ device.Device }

func (d panicking) Open() device.Space { return panickingSpace{d.Device.Open()} }

type panickingSpace struct{ device.Space }

func (s panickingSpace) Run(p device.Program, base uint64, inputs []uint64, scalars []float64, stop *atomic.Bool) error {
	if scalars[0] == 13 {
		panic("unlucky")
	}
	return s.Space.Run(p, base, inputs, scalars, stop)
}

// TestPanic checks that a panic of the device ends one session.
func TestPanic(t *testing.T) {
	dev := worker.NewTestDevice(t, cpu.Options{})
	f := start(t, worker.Options{Device: panicking{dev}})
	f.open(1, 0)
	p := f.program(false, func(x *tensor.Tensor) *tensor.Tensor { return x.AddS(1) })
	f.body(1, p)
	f.batch(&wire.Run{Session: 1, Seq: 1, Hash: p.hash, Uploads: []wire.Upload{floats(1, 1, 2)}, Inputs: []uint64{1}, Scalars: []float64{13}})
	f.failed(1, wire.CodeInternal, "unlucky")
	f.healthy(2)
}

// late is a device whose programs with the scalar 13 fail when they are waited for.
type late struct{ device.Device }

func (d late) Open() device.Space { return &lateSpace{Space: d.Device.Open()} }

type lateSpace struct {
	device.Space
	failed error
}

func (s *lateSpace) Run(p device.Program, base uint64, inputs []uint64, scalars []float64, stop *atomic.Bool) error {
	if scalars[0] == 13 {
		s.failed = &device.Failure{Base: base, Err: &tensor.RunError{Op: "add_s", Inputs: "f32[2]", Err: tensor.ErrIndex}}
		return nil
	}
	return s.Space.Run(p, base, inputs, scalars, stop)
}

func (s *lateSpace) Host(ids ...uint64) ([]*shm.Block, error) {
	if err := s.Sync(); err != nil {
		return nil, err
	}
	return s.Space.Host(ids...)
}

func (s *lateSpace) Sync() error {
	err := s.failed
	s.failed = nil
	return errors.Join(err, s.Space.Sync())
}

// TestLateFailure checks that the failure of a program that an earlier batch ran is the
// answer of an earlier batch, and that of the batch's own program its own.
func TestLateFailure(t *testing.T) {
	f := start(t, worker.Options{Device: late{worker.NewTestDevice(t, cpu.Options{Arena: worker.Checked()})}})
	f.open(1, 0)
	p := f.program(false, func(x *tensor.Tensor) *tensor.Tensor { return x.AddS(1) })
	f.body(1, p)
	run := func(seq, base uint64, scalar float64, fetch ...uint64) {
		f.batch(&wire.Run{Session: 1, Seq: seq, Hash: p.hash, Base: base, Inputs: []uint64{1}, Scalars: []float64{scalar}, Fetch: fetch})
	}
	f.batch(&wire.Run{Session: 1, Seq: 1, Uploads: []wire.Upload{floats(1, 1, 2)}})
	run(2, 50, 13)
	run(3, 60, 2)
	run(4, 70, 3, 60, 70)
	if d := f.answer(wire.CodeIndex, ""); d.Seq != 3 || d.Op != "add_s" || len(d.Results) != 0 {
		t.Errorf("%+v", d)
	}
	if d := f.answer(wire.CodeOK, ""); d.Seq != 4 || len(d.Results) != 2 {
		t.Errorf("%+v", d)
	}
	run(5, 80, 13, 60)
	if d := f.answer(wire.CodeIndex, ""); d.Seq != 5 || d.At != 1 || len(d.Results) != 0 {
		t.Errorf("%+v", d)
	}
	f.batch(&wire.Run{Session: 1, Seq: 6, Fetch: []uint64{50}})
	f.answer(wire.CodeUnknownID, "50")
	if n := f.dev.Arena().Stats().Leases; n != 2 {
		t.Errorf("%d leases, expected those of the answer that had results", n)
	}
}

// TestFailedLeases checks that results of a session that is over stay as they are until
// its client has gone: it may be reading them.
func TestFailedLeases(t *testing.T) {
	f := start(t, worker.Options{})
	p := f.program(false, func(x *tensor.Tensor) *tensor.Tensor { return x.AddS(1) })
	closed := func(reason wire.Code) {
		f.send(wire.KindCloseSession, wire.Append(nil, &wire.CloseSession{Session: 1, Reason: reason}))
	}
	for i, end := range []func(){
		func() { closed(wire.CodeWorkerGone) },
		func() {
			f.send(wire.KindMeet, wire.Append(nil, &wire.Meet{Session: 1, Rank: 1}))
			f.failed(1, wire.CodeProtocol, "")
		},
	} {
		f.open(1, 0)
		f.body(1, p)
		f.batch(&wire.Run{Session: 1, Seq: 1, Hash: p.hash, Base: 50, Uploads: []wire.Upload{floats(1, 1, 2)},
			Inputs: []uint64{1}, Scalars: []float64{1}, Fetch: []uint64{50}})
		f.answer(wire.CodeOK, "")
		end()
		f.open(uint64(10+2*i), 0) // what came before was dealt with
		if n := f.dev.Arena().Stats().Leases; n != 1 {
			t.Errorf("%d leases of a session that failed, expected 1", n)
		}
		closed(wire.CodeOK)
		f.open(uint64(11+2*i), 0)
		if n := f.dev.Arena().Stats(); n.Leases != 0 || n.Blocks > 1 {
			t.Errorf("%d leases and %d blocks are left", n.Leases, n.Blocks)
		}
	}
}

// TestCloseSession checks that everything a session held is freed.
func TestCloseSession(t *testing.T) {
	f := start(t, worker.Options{})
	p := f.program(false, func(x *tensor.Tensor) *tensor.Tensor { return x.AddS(1) })
	for i := range uint64(20) {
		id := i + 1
		f.open(id, 0)
		seg := f.segment(id, 1<<20)
		f.body(id, p)
		f.batch(&wire.Run{Session: id, Seq: 1, Hash: p.hash, Base: 50, Uploads: []wire.Upload{byHandle(1, seg, 0, 2), floats(2, 1, 2)},
			Inputs: []uint64{1}, Scalars: []float64{1}, Fetch: []uint64{50, 1, 2}})
		if d := f.answer(wire.CodeOK, ""); len(d.Results) != 3 {
			t.Errorf("%+v", d)
		}
		f.send(wire.KindCloseSession, wire.Append(nil, &wire.CloseSession{Session: id}))
	}
	f.healthy(99)
	f.open(100, 0) // what came before was dealt with
	if n := f.dev.Arena().Stats(); n.Leases != 0 || n.Blocks > 1 {
		t.Errorf("%d leases and %d blocks are left", n.Leases, n.Blocks)
	}
	if st := f.w.Stats(); st.Sessions != 1 || st.Opened != 22 {
		t.Errorf("%+v", st)
	}
}

// errBad is why a fragile device is lost.
var errBad = errors.New("access to a bad address")

// fragile is a device that the first program loses.
type fragile struct {
	device.Device
	lost atomic.Bool
}

func (d *fragile) Open() device.Space { return &fragileSpace{d.Device.Open(), d} }

func (d *fragile) Lost() error {
	if d.lost.Load() {
		return errBad
	}
	return nil
}

type fragileSpace struct {
	device.Space
	dev *fragile
}

func (s *fragileSpace) Run(device.Program, uint64, []uint64, []float64, *atomic.Bool) error {
	s.dev.lost.Store(true)
	return errBad
}

// TestDeviceLost checks that a worker whose device is lost ends with the reason and tells
// it to all its sessions, also to the one whose program it was.
func TestDeviceLost(t *testing.T) {
	f := start(t, worker.Options{Device: &fragile{Device: worker.NewTestDevice(t, cpu.Options{Arena: worker.Checked()})}})
	for id := range uint64(2) {
		f.open(id, 0)
		f.batch(&wire.Run{Session: id, Seq: 1, Uploads: []wire.Upload{floats(1, 1, 2)}, Flags: wire.RunSync})
		f.answer(wire.CodeOK, "")
	}
	p := f.program(false, func(x *tensor.Tensor) *tensor.Tensor { return x.Neg() })
	f.body(1, p)
	f.batch(&wire.Run{Session: 1, Seq: 2, Hash: p.hash, Inputs: []uint64{1}, Base: 10, Flags: wire.RunSync})
	told := map[uint64]bool{}
	for range 2 {
		var m wire.Fail
		if err := wire.Parse(f.recv(wire.KindFail), &m); err != nil {
			t.Fatal(err)
		}
		if m.Code != wire.CodeWorkerGone || !strings.Contains(m.Text, `worker "w"`) || !strings.Contains(m.Text, errBad.Error()) {
			t.Errorf("session %d: %v %q, expected %v that names the worker and the reason", m.Session, m.Code, m.Text, wire.CodeWorkerGone)
		}
		told[m.Session] = true
	}
	if !told[0] || !told[1] {
		t.Errorf("sessions %v were told", told)
	}
	err := <-f.end
	f.end <- nil
	if !errors.Is(err, worker.ErrDevice) || !errors.Is(err, errBad) {
		t.Errorf("Serve returned %v, expected %v because of %v", err, worker.ErrDevice, errBad)
	}
}

// TestEnd checks how Serve ends.
func TestEnd(t *testing.T) {
	t.Run("asked to", func(t *testing.T) {
		f := start(t, worker.Options{})
		f.open(1, 0)
		f.stop(errors.New("tea time"))
		f.failed(1, wire.CodeWorkerGone, "tea time")
		err := <-f.end
		f.end <- nil
		if err != nil {
			t.Error(err)
		}
		if _, err := f.conn.Recv(f.ctx); !errors.Is(err, ipc.ErrPeerGone) {
			t.Error(err)
		}
	})
	for what, c := range map[string]struct {
		do   func(f *fixture)
		want []error
		text string
	}{
		"dispatcher dies": {func(f *fixture) { f.conn.Close() }, []error{worker.ErrDispatcher, ipc.ErrPeerGone}, "pipe:"},
		"dispatcher stops": {func(f *fixture) {
			f.send(wire.KindFail, wire.Append(nil, &wire.Fail{Code: wire.CodeShutdown, Text: "good bye"}))
		}, []error{worker.ErrDispatcher}, "good bye"},
		"name taken": {func(f *fixture) {
			f.send(wire.KindFail, wire.Append(nil, &wire.Fail{Code: wire.CodeNameTaken, Text: "by pid 4"}))
		}, []error{worker.ErrNameTaken}, "by pid 4"},
		"short message": {func(f *fixture) { f.send(wire.KindRun, []byte{1}) }, []error{worker.ErrDispatcher, ipc.ErrCorrupt}, "1 bytes"},
		"session twice": {func(f *fixture) {
			f.open(1, 0)
			f.send(wire.KindOpenSession, wire.Append(nil, &wire.OpenSession{Session: 1}))
		}, []error{worker.ErrDispatcher}, "twice"},
		"broken open": {func(f *fixture) { f.send(wire.KindOpenSession, message(1)) }, []error{worker.ErrDispatcher, wire.ErrMalformed}, "OpenSession"},
	} {
		t.Run(what, func(t *testing.T) {
			f := start(t, worker.Options{})
			c.do(f)
			err := <-f.end
			f.end <- nil
			for _, want := range c.want {
				if !errors.Is(err, want) {
					t.Errorf("%v is not %v", err, want)
				}
			}
			if err == nil || !strings.Contains(err.Error(), c.text) {
				t.Errorf("%v, expected a word of %q", err, c.text)
			}
		})
	}
	t.Run("nobody there", func(t *testing.T) {
		w, err := worker.New(&worker.Options{Name: "w", Transport: &ipctest.Network{}})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Serve(context.Background(), "pipe:nobody"); !errors.Is(err, ipc.ErrNoListener) {
			t.Error(err)
		}
	})
	t.Run("options", func(t *testing.T) {
		for _, o := range []worker.Options{{Name: strings.Repeat("x", 300)}, {MaxMapped: -1}} {
			if _, err := worker.New(&o); !errors.Is(err, worker.ErrOption) {
				t.Error(err)
			}
		}
	})
}

// TestTellsDevice tests that a worker tells the dispatcher again how much of its memory
// is used when that has changed by much.
func TestTellsDevice(t *testing.T) {
	const limit = 4 << 20
	f := startWith(t, worker.Options{}, limit)
	f.open(1, 0)
	p := f.program(false, func(x *tensor.Tensor) *tensor.Tensor { return x.AddS(1) })
	f.body(1, p)
	const runs = limit/16/64 + 100 // a result takes 64 bytes
	for seq := range uint64(runs) {
		base := 1000 + 10*seq
		f.batch(&wire.Run{Session: 1, Seq: 1 + seq, Hash: p.hash, Base: base, Uploads: []wire.Upload{floats(base+5, 1, 2)},
			Inputs: []uint64{base + 5}, Scalars: []float64{1}})
	}
	for m := (wire.Device{}); m.Used < limit/16; { // it also says whether it is busy
		if err := wire.Parse(f.recv(wire.KindDevice), &m); err != nil || m.Info.Bytes != limit {
			t.Fatalf("%+v, %v; want %d bytes in all", m, err, limit)
		}
	}
}
