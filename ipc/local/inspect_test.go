package local_test

import (
	"bytes"
	"io"
	"os"
	"testing"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/local"
	"github.com/ringside-go/ringside/ring"
	"github.com/ringside-go/ringside/shm"
)

// TestInspect: the memory of a conn is found in both processes, and what it says is so.
func TestInspect(t *testing.T) {
	ctx := testContext(t)
	l, path := listen(t, &ipc.Options{RingBytes: 1 << 13})
	p := start(t, "echo", path)
	c := accept(t, ctx, l)
	for range 3 {
		if err := echoed(ctx, c); err != nil {
			t.Fatal(err)
		}
	}
	// a receiver that finds nothing publishes its releases
	if _, more, err := c.TryRecv(); more || err != nil {
		t.Fatal(more, err)
	}
	seg, err := shm.Create(3<<20, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer seg.Close()
	copy(seg.Bytes(), "no header")
	theirs := map[uint64]local.Mapping{} // by inode
	for _, m := range inspected(t, p.cmd.Process.Pid) {
		theirs[m.Inode] = m
	}
	segment := false
	both := map[string]int{}
	for _, m := range inspected(t, os.Getpid()) {
		segment = segment || m.Kind == local.MappedSegment && m.Bytes == 3<<20
		their, ok := theirs[m.Inode]
		if !ok || m.Kind == local.MappedSegment {
			continue // what other tests left to the garbage collector may hold anything
		}
		both[m.Kind]++
		if m.Kind != their.Kind {
			t.Errorf("%+v is to them %+v", m, their)
		}
		if m.Kind == local.MappedBells && (len(m.Bells) != 2 || m.Bells[0].Version != ring.Layout || len(their.Bells) != 2) {
			t.Errorf("%+v", m)
		}
		if m.Kind == local.MappedRings {
			if r := their.Rings; len(r) != 2 || r[0].Capacity != 1<<13 || r[1].Version != ring.Layout ||
				// a record is 8 bytes and then 100, rounded up to 8
				r[0].Head != 3*112 || r[1].Head > 3*112 {
				t.Errorf("%+v", r)
			}
		}
	}
	if !segment {
		t.Error("the segment was not found")
	}
	if both[local.MappedRings] != 1 || both[local.MappedBells] != 2 {
		t.Errorf("the processes share %v", both)
	}
	if _, err := local.Inspect(-1); err == nil {
		t.Error("a process that there is not")
	}
}

// TestInspectWhileMemoryGoes: what a process unmaps while it is looked at is no failure.
func TestInspectWhileMemoryGoes(t *testing.T) {
	stop, stopped, once := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for n := 0; ; n++ {
			var segs [8]*shm.Segment
			for i := range segs {
				seg, err := shm.Create(1<<12, nil)
				if err != nil {
					t.Error(err)
					return
				}
				segs[i] = seg
			}
			for _, seg := range segs {
				seg.Close()
			}
			if n == 0 {
				close(once)
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	}()
	defer func() {
		close(stop)
		<-stopped
	}()
	select {
	case <-once:
	case <-stopped:
		return
	}
	for range 200 {
		inspected(t, os.Getpid())
	}
}

// emptied is the memory of two rings, which is emptied after the first of them was read.
type emptied struct {
	mem   []byte
	reads int
}

func (e *emptied) ReadAt(p []byte, off int64) (int, error) {
	if e.reads++; e.reads == 2 {
		clear(e.mem)
	}
	return copy(p, e.mem[off:]), nil
}

// TestInspectEmptied: rings whose conn ends between the reads of the first and the second
// are no rings, not half of them; damage that stays is shown as what is left.
func TestInspectEmptied(t *testing.T) {
	const size = ring.HeaderSize + 4096
	rings := func() []byte {
		mem := make([]byte, 2*size)
		for _, half := range [][]byte{mem[:size], mem[size:]} {
			if err := ring.Init(half); err != nil {
				t.Fatal(err)
			}
		}
		return mem
	}
	for _, c := range []struct {
		name  string
		mem   io.ReaderAt
		kind  string
		rings int
	}{
		{"whole", bytes.NewReader(rings()), local.MappedRings, 2},
		{"emptied", &emptied{mem: rings()}, local.MappedSegment, 0},
		{"damaged", bytes.NewReader(append(rings()[:size], make([]byte, size)...)), local.MappedRings, 1},
	} {
		m := local.Mapping{Bytes: 2 * size, Kind: local.MappedSegment}
		if err := local.ReadMapping(&m, c.mem); err != nil || m.Kind != c.kind || len(m.Rings) != c.rings {
			t.Errorf("%s: %+v, %v; expected %s with %d rings", c.name, m, err, c.kind, c.rings)
		}
	}
}

func inspected(t *testing.T, pid int) []local.Mapping {
	t.Helper()
	all, err := local.Inspect(pid)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range all {
		if m.Unread != "" || m.PID != pid {
			t.Errorf("%+v", m)
		}
	}
	return all
}
