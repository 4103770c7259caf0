package local_test

import (
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
	seg, err := shm.Create(3<<20, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer seg.Close()
	copy(seg.Bytes(), "no header")
	shared := map[uint64]map[int]string{} // what each process, by its pid, calls the file
	segment := false
	for _, pid := range []int{os.Getpid(), p.cmd.Process.Pid} {
		all, err := local.Inspect(pid)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range all {
			if m.Unread != "" || m.PID != pid {
				t.Errorf("%+v", m)
			}
			if m.Kind == local.MappedSegment {
				segment = segment || m.Bytes == 3<<20
				continue
			}
			if shared[m.Inode] == nil {
				shared[m.Inode] = map[int]string{}
			}
			shared[m.Inode][pid] = m.Kind
			if m.Kind == local.MappedBells && (len(m.Bells) != 2 || m.Bells[0].Version != ring.Layout) {
				t.Errorf("%+v", m)
			}
			if m.Kind == local.MappedRings && pid == p.cmd.Process.Pid {
				if len(m.Rings) != 2 || m.Rings[0].Capacity != 1<<13 || m.Rings[1].Version != ring.Layout ||
					m.Rings[0].Head < 2*108 || m.Rings[1].Head > 4*108 {
					t.Errorf("%+v", m.Rings)
				}
			}
		}
	}
	if !segment {
		t.Error("the segment was not found")
	}
	both := map[string]int{}
	for _, kinds := range shared {
		if len(kinds) == 2 {
			both[kinds[os.Getpid()]]++
		}
	}
	if both[local.MappedRings] != 1 || both[local.MappedBells] != 2 {
		t.Errorf("the processes share %v", both)
	}
	if _, err := local.Inspect(-1); err == nil {
		t.Error("a process that there is not")
	}
}
