package memory_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/ringside-go/ringside/shm"
	"github.com/ringside-go/ringside/tensor/cuda/driver"
	"github.com/ringside-go/ringside/tensor/cuda/fakecuda"
	"github.com/ringside-go/ringside/tensor/cuda/memory"
)

// TestExportBytes gives and takes the bytes of an export, and truncates them everywhere.
func TestExportBytes(t *testing.T) {
	e := memory.Export{Segment: 0x1122334455667788, Size: 256 * mib, Device: driver.UUID{1, 2, 15: 16}, Kind: memory.Handles, Handle: driver.IPCHandle{3, 63: 9}}
	b := e.Append(nil)
	if got, err := memory.ParseExport(b); err != nil || got != e || len(b) != memory.ExportSize {
		t.Errorf("%d bytes: %+v, %v, want %+v", len(b), got, err, e)
	}
	for n := range b {
		if _, err := memory.ParseExport(b[:n]); !errors.Is(err, memory.ErrBadExport) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	for name, change := range map[string]func(*memory.Export){
		"no bytes": func(e *memory.Export) { e.Size = 0 },
		"too many": func(e *memory.Export) { e.Size = 1 << 63 },
		"no kind":  func(e *memory.Export) { e.Kind = 3 },
	} {
		bad := e
		change(&bad)
		if _, err := memory.ParseExport(bad.Append(nil)); !errors.Is(err, memory.ErrBadExport) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestExportOnce checks that the driver is asked once a segment, and what Export refuses.
func TestExportOnce(t *testing.T) {
	l := standIn(t)
	d := l.device(t, 0, small)
	pool := must(d.NewPool(memory.Handles))
	b := must(pool.Alloc(1))
	id := b.Handle().Segment
	first, f, err := pool.Export(id)
	before := l.calls(t)
	again, _, err2 := pool.Export(id)
	check(t, err, err2)
	if after := l.calls(t); again != first || f != nil || after != before {
		t.Errorf("the second export made %d calls, %+v, want %+v", after-before, again, first)
	}
	if _, _, err := pool.Export(id + 1); !errors.Is(err, shm.ErrUnknownSegment) {
		t.Errorf("another id: %v", err)
	}
	b.Release()
	check(t, pool.Close(), d.Close())
	l.nothingLeft(t)
}

// TestHold has a segment that is held stay although nothing is in it, where the device
// needs memory, and go when it is no longer held.
func TestHold(t *testing.T) {
	t.Setenv("FAKECUDA_MEMORY_MIB", "8")
	l := standIn(t)
	d := l.device(t, 0, small)
	pool := must(d.NewPool(memory.Handles))
	b := must(pool.Alloc(1))
	id := b.Handle().Segment
	pool.Hold(id)
	b.Release()
	if _, err := pool.Alloc(8 * mib); !errors.Is(err, shm.ErrNoSpace) {
		t.Errorf("8 MiB of 8, of which 4 are held: %v", err)
	}
	if !pool.Arena().Has(id) {
		t.Error("a segment that was held is gone")
	}
	pool.Unhold(id)
	b = must(pool.Alloc(8 * mib))
	b.Release()
	check(t, pool.Close(), d.Close())
	l.nothingLeft(t)
}

// TestReaches asks which devices this one reaches.
func TestReaches(t *testing.T) {
	l := standIn(t)
	d, other := l.device(t, 0, small), l.device(t, 1, small)
	check(t, d.Reaches(d.Info().UUID), d.Reaches(other.Info().UUID))
	if err := d.Reaches(driver.UUID{1}); !errors.Is(err, memory.ErrUnreached) {
		t.Errorf("a device that this process does not see: %v", err)
	}
	check(t, other.Close(), d.Close())
	l.nothingLeft(t)
}

// TestBadImports gives Add exports that a peer may have made up.
func TestBadImports(t *testing.T) {
	l := standIn(t)
	d := l.device(t, 0, small)
	pool := must(d.NewPool(memory.Handles))
	b := must(pool.Alloc(1))
	good, _, err := pool.Export(b.Handle().Segment)
	check(t, err)
	imports := d.NewImports(&memory.ImportOptions{MaxSegments: 1})
	for name, c := range map[string]struct {
		change func(*memory.Export)
		says   string
	}{
		"of this process": {func(*memory.Export) {}, "(201)"},
		"no handle":       {func(e *memory.Export) { e.Handle = driver.IPCHandle{} }, "cuIpcOpenMemHandle"},
		"another device":  {func(e *memory.Export) { e.Device[0]++ }, "this process uses"},
		"no descriptor":   {func(e *memory.Export) { e.Kind = memory.Descriptors }, "descriptor false"},
	} {
		e := good
		c.change(&e)
		if err := imports.Add(7, e, nil); !errors.Is(err, memory.ErrBadExport) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %v that says %q", name, err, memory.ErrBadExport, c.says)
		}
	}
	if _, err := imports.Resolve(7, b.Handle()); !errors.Is(err, shm.ErrUnknownSegment) {
		t.Errorf("a handle of a segment that was refused: %v", err)
	}
	b.Release()
	check(t, imports.Close(), pool.Close(), d.Close())
	l.nothingLeft(t)
}

// addAgain is the other process of TestAddAgain. args are the library, the kind and the
// counters.
func addAgain(_ context.Context, args []string) error {
	d, err := library{path: args[0]}.open(0, small)
	if err != nil {
		return err
	}
	var f *os.File
	if args[1] == memory.Descriptors.String() {
		f = os.NewFile(3, "segment")
	}
	order, err := io.ReadAll(os.Stdin)
	if err != nil {
		return err
	}
	e, err := memory.ParseExport(order[:memory.ExportSize])
	if err != nil {
		return err
	}
	h := shm.GetHandle(order[memory.ExportSize:])
	imports := d.NewImports(&memory.ImportOptions{MaxSegments: 1})
	longer, other := e, e
	longer.Size, other.Segment = 1<<30, e.Segment+1
	if err := imports.Add(1, longer, f); !errors.Is(err, memory.ErrBadExport) {
		return fmt.Errorf("a size that the memory does not have: %w", err)
	}
	if err := imports.Add(1, e, f); err != nil {
		return err
	}
	before := must(fakecuda.ReadCalls(args[2], os.Getpid()))
	at := must(imports.Resolve(1, h))
	if err := imports.Add(1, e, f); err != nil || must(imports.Resolve(1, h)) != at {
		return fmt.Errorf("the same export again: %w", err)
	}
	if err := imports.Add(1, longer, f); !errors.Is(err, shm.ErrExists) {
		return fmt.Errorf("another export of the same id: %w", err)
	}
	if err := imports.Add(1, other, f); !errors.Is(err, shm.ErrNoSpace) {
		return fmt.Errorf("a second segment where one is allowed: %w", err)
	}
	if n := must(fakecuda.ReadCalls(args[2], os.Getpid())) - before; n != 0 {
		return fmt.Errorf("%d calls of the driver after the segment was open", n)
	}
	if err := imports.Add(2, e, f); err != nil { // each owner has ids of its own
		return err
	}
	if n := d.Opens(); n != 2 {
		return fmt.Errorf("%d opens are counted, expected 2", n)
	}
	if err := imports.Remove(1, e.Segment); err != nil {
		return err
	}
	if _, err := imports.Resolve(1, h); !errors.Is(err, shm.ErrUnknownSegment) {
		return fmt.Errorf("a handle of a segment that was removed: %w", err)
	}
	if err := imports.Remove(1, e.Segment); !errors.Is(err, shm.ErrUnknownSegment) {
		return fmt.Errorf("removed twice: %w", err)
	}
	if _, err := imports.Resolve(2, h); err != nil {
		return fmt.Errorf("the segment of another owner: %w", err)
	}
	return errors.Join(imports.Close(), d.Close())
}

// TestAddAgain has another process open a segment more than once, and as what it is not.
func TestAddAgain(t *testing.T) {
	l := standIn(t)
	d := l.device(t, 0, small)
	for _, k := range []memory.Kind{memory.Handles, memory.Descriptors} {
		check(t, d.Try(k, otherProcess(nil, "add-again", l.path, k.String(), l.counters)))
	}
	check(t, d.Close())
	l.nothingLeft(t)
}

// removeAgain is the other process of TestRemoveAgain. args are the library, the kind and
// the counters. The driver fails to wait twice.
func removeAgain(_ context.Context, args []string) error {
	d, err := library{path: args[0]}.open(0, small)
	if err != nil {
		return err
	}
	var f *os.File
	if args[1] == memory.Descriptors.String() {
		f = os.NewFile(3, "segment")
	}
	order, err := io.ReadAll(os.Stdin)
	if err != nil {
		return err
	}
	e := must(memory.ParseExport(order[:memory.ExportSize]))
	h := shm.GetHandle(order[memory.ExportSize:])
	before := must(fakecuda.ReadCounters(args[2]))
	imports := d.NewImports(nil)
	if err := imports.Add(1, e, f); err != nil {
		return err
	}
	if err := imports.Remove(1, e.Segment); !errors.Is(err, driver.OutOfMemory) {
		return fmt.Errorf("a driver that can't wait: %w", err)
	}
	if err := imports.ReleaseOwner(1); !errors.Is(err, driver.OutOfMemory) {
		return fmt.Errorf("a driver that can't wait, for all segments of an owner: %w", err)
	}
	if _, err := imports.Resolve(1, h); err != nil {
		return fmt.Errorf("the segment that stayed: %w", err)
	}
	if err := imports.Remove(1, e.Segment); err != nil {
		return err
	}
	if after := must(fakecuda.ReadCounters(args[2])); after != before {
		return fmt.Errorf("left: %+v, before the import %+v", after, before)
	}
	return errors.Join(imports.Close(), d.Close())
}

// TestRemoveAgain has another process remove a segment when the driver can't wait for the
// work that may read it.
func TestRemoveAgain(t *testing.T) {
	l := standIn(t)
	d := l.device(t, 0, small)
	// Of the other process alone: this one has loaded its library.
	t.Setenv("FAKECUDA_FAIL", "cuCtxSynchronize:1=2,cuCtxSynchronize:2=2")
	for _, k := range []memory.Kind{memory.Handles, memory.Descriptors} {
		check(t, d.Try(k, otherProcess(nil, "remove-again", l.path, k.String(), l.counters)))
	}
	check(t, d.Close())
	l.nothingLeft(t)
}

// tried is the other process of TestTry. args are the library and the kind.
func tried(_ context.Context, args []string) error {
	d, err := library{path: args[0]}.open(0, small)
	if err != nil {
		return err
	}
	var f *os.File
	if args[1] == memory.Descriptors.String() {
		f = os.NewFile(3, "segment")
	}
	return errors.Join(d.Tried(os.Stdin, f), d.Close())
}

// TestTry tries both kinds with another process, where the driver can and where it can't.
func TestTry(t *testing.T) {
	if *given == "" {
		t.Setenv("FAKECUDA_FAIL", "cuIpcGetMemHandle:2=801,cuMemExportToShareableHandle:2=801")
	}
	l := either(t)
	d := l.device(t, 0, small)
	for _, k := range []memory.Kind{memory.Handles, memory.Descriptors} {
		try := func() error {
			return d.Try(k, l.triedBy(k, nil))
		}
		check(t, try())
		if err := try(); *given == "" && !errors.Is(err, driver.NotSupported) {
			t.Errorf("%v where the driver refuses: %v", k, err)
		}
	}
	if err := d.Tried(strings.NewReader("short"), nil); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a short order: %v", err)
	}
	check(t, d.Close())
	l.nothingLeft(t)
}

func TestKindBetween(t *testing.T) {
	if n := must(memory.Namespace()); n == 0 || memory.KindBetween(n, n) != memory.Handles || memory.KindBetween(n, n+1) != memory.Descriptors {
		t.Errorf("namespace %d; handles are for processes of one namespace", n)
	}
}
