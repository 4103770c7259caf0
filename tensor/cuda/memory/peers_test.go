package memory_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/shm"
	"github.com/ringside-go/ringside/shm/testneeds"
	"github.com/ringside-go/ringside/tensor/cuda/driver"
	"github.com/ringside-go/ringside/tensor/cuda/memory"
)

// triedBy returns the other side of Device.Try, as a process with those attributes.
func (l library) triedBy(k memory.Kind, attr *syscall.SysProcAttr) func(io.Reader, *os.File) error {
	return otherProcess(attr, "tried", l.path, k.String())
}

// otherProcess returns the other side of Device.Try, as a helper with those arguments.
func otherProcess(attr *syscall.SysProcAttr, args ...string) func(io.Reader, *os.File) error {
	return func(order io.Reader, f *os.File) error {
		cmd := exec.Command(os.Args[0], args...)
		cmd.Stdin, cmd.SysProcAttr = order, attr
		if f != nil {
			cmd.ExtraFiles = []*os.File{f}
		}
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	}
}

// TestThreeProcesses has two processes open one segment at the same time.
func TestThreeProcesses(t *testing.T) {
	l := either(t)
	d := l.device(t, 0, small)
	for _, k := range []memory.Kind{memory.Handles, memory.Descriptors} {
		check(t, d.Try(k, func(order io.Reader, f *os.File) error {
			said, err := io.ReadAll(order)
			if err != nil {
				return err
			}
			var errs [2]error
			var both sync.WaitGroup
			for n := range errs {
				both.Go(func() { errs[n] = l.triedBy(k, nil)(strings.NewReader(string(said)), f) })
			}
			both.Wait()
			return errors.Join(errs[:]...)
		}))
	}
	check(t, d.Close())
	l.nothingLeft(t)
}

// TestNamespaces has a process of another PID namespace open a segment: a descriptor
// reaches it and a handle doesn't, which KindBetween relies on.
func TestNamespaces(t *testing.T) {
	attr := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	probe := exec.Command("/proc/self/exe", "-test.run", "^$")
	probe.SysProcAttr = attr
	switch err := probe.Run(); {
	case errors.Is(err, syscall.EPERM):
		testneeds.Root.Skipf(t, os.Getenv, "a PID namespace needs root: %v", err)
	case errors.Is(err, syscall.EINVAL):
		testneeds.Root.Skipf(t, os.Getenv, "an emulated process can't make a PID namespace: %v", err)
	default:
		check(t, err)
	}
	l := either(t)
	d := l.device(t, 0, small)
	check(t, d.Try(memory.Descriptors, l.triedBy(memory.Descriptors, attr)))
	err := d.Try(memory.Handles, l.triedBy(memory.Handles, attr))
	t.Logf("a handle from another PID namespace: %v", err)
	if err == nil || !strings.Contains(err.Error(), driver.InvalidContext.Error()) {
		t.Errorf("a handle from another PID namespace: %v, want %v", err, driver.InvalidContext)
	}
	check(t, d.Close())
	l.nothingLeft(t)
}

// points are where exportUntil stops.
var points = []string{
	"connected", "a tensor filled", "its segment exported", "the export sent", "the handle sent", "the tensor given back",
	"another handle sent", "the other given back",
}

// exportUntil hands over two tensors up to a point, and then waits to be killed. args are
// the library, the address, the kind and the point.
func exportUntil(ctx context.Context, args []string) error {
	e, err := newExporter(ctx, args, small)
	if err != nil {
		return err
	}
	var b [2]*shm.Block
	var x memory.Export
	var files []*os.File
	for n, step := range []func() error{
		func() error { return nil },
		func() (err error) {
			for seed := range b {
				if b[seed], err = e.fill(100<<10, uint64(seed)); err != nil {
					return err
				}
			}
			return e.stream.Sync()
		},
		func() error {
			var f *os.File
			if x, f, err = e.pool.Export(b[0].Handle().Segment); f != nil {
				files = append(files, f)
			}
			return err
		},
		func() error {
			e.exported[x.Segment] = true
			return send(ctx, e.conn, kindExport, x.Append(nil), files...)
		},
		func() error { return e.hand(ctx, b[0], 0) },
		func() error { return e.done(ctx) },
		func() error { return e.hand(ctx, b[1], 1) },
		func() error { return e.done(ctx) },
	} {
		if err := step(); err != nil {
			return err
		}
		if strconv.Itoa(n) == args[3] {
			fmt.Println("there")
			_, err := io.ReadAll(os.Stdin)
			return err
		}
	}
	return nil
}

// TestExporterKilled kills the exporter at each point of a hand-over. The importer learns
// it, still reads what it was handed, and gives everything back.
func TestExporterKilled(t *testing.T) {
	for _, kind := range []memory.Kind{memory.Handles, memory.Descriptors} {
		for n, name := range points {
			t.Run(fmt.Sprintf("%v, %s", kind, name), func(t *testing.T) { exporterKilled(t, kind, n) })
		}
	}
}

func exporterKilled(t *testing.T, kind memory.Kind, point int) {
	lib := either(t)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	l, err := listener(t.TempDir())
	check(t, err)
	defer l.Close()
	e := talk(t, "export-until", lib.path, l.Addr(), strconv.Itoa(int(kind)), strconv.Itoa(point))
	i, err := newImporter(ctx, lib.path, l, small)
	check(t, err)
	var handles []shm.Handle
	ended := make(chan error)
	go func() {
		for {
			h, seed, err := i.next(ctx)
			if err == nil {
				if err = i.verify(h, seed); err == nil {
					handles = append(handles, h)
					err = i.done(ctx, h)
				}
			}
			// A segment can't be opened any more once its exporter has ended.
			if err != nil && !errors.Is(err, memory.ErrBadExport) && !errors.Is(err, shm.ErrUnknownSegment) {
				ended <- err
				return
			}
		}
	}()
	if line := e.line(t); line != "there\n" {
		t.Fatalf("the exporter said %q", line)
	}
	check(t, e.cmd.Process.Kill())
	e.cmd.Wait()
	if err := <-ended; !errors.Is(err, ipc.ErrPeerGone) {
		t.Errorf("%v, want %v", err, ipc.ErrPeerGone)
	}
	if least := (point - 3) / 2; len(handles) < least {
		t.Errorf("%d tensors arrived, want at least %d", len(handles), least)
	}
	for seed, h := range handles {
		check(t, i.verify(h, uint64(seed)))
	}
	check(t, i.close())
	lib.nothingLeft(t)
}
