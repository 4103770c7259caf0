package memory_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ringside-go/ringside/shm"
	"github.com/ringside-go/ringside/shm/testneeds"
	"github.com/ringside-go/ringside/tensor/cuda/driver"
	"github.com/ringside-go/ringside/tensor/cuda/driver/dlopen"
	"github.com/ringside-go/ringside/tensor/cuda/fakecuda"
	"github.com/ringside-go/ringside/tensor/cuda/memory"
)

const mib = 1 << 20

var given = flag.String("library", "", "run the tests of copies and processes over this libcuda.so.1 instead of the stand-in")

// TestMain runs a helper where its name is the first argument, see helpers.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		if f := helpers[os.Args[1]]; f != nil {
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
			err := f(ctx, os.Args[2:])
			cancel()
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			return
		}
	}
	os.Exit(m.Run())
}

// library is a driver library and, of a stand-in, its counters.
type library struct{ path, counters string }

// standIn returns a copy of the stand-in, with what the environment sets.
func standIn(t *testing.T) library {
	t.Helper()
	testneeds.GCC.Program(t, os.Getenv, fakecuda.Compiler())
	lib, err := fakecuda.Copy(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	l := library{lib, filepath.Join(t.TempDir(), "counters")}
	t.Setenv("FAKECUDA_COUNTERS", l.counters)
	return l
}

// either returns the library that was given to the test, or the stand-in.
func either(t *testing.T) library {
	if *given != "" {
		return library{path: *given}
	}
	return standIn(t)
}

// nothingLeft checks that nothing of the stand-in is alive.
func (l library) nothingLeft(t *testing.T) {
	t.Helper()
	if l.counters == "" {
		return
	}
	if c, err := fakecuda.ReadCounters(l.counters); err != nil || c != (fakecuda.Counters{}) {
		t.Errorf("left: %+v, %v", c, err)
	}
}

// small are options for tests that fill segments.
var small = &memory.Options{Segment: 4 * mib, Growth: 8 * mib, Slots: 4, Slot: 64 << 10}

// open opens a device of l; the test closes it.
func (l library) open(number int, o *memory.Options) (*memory.Device, error) {
	api, err := dlopen.Open(l.path)
	if err != nil {
		return nil, err
	}
	return memory.Open(api, number, o)
}

func (l library) device(t *testing.T, number int, o *memory.Options) *memory.Device {
	t.Helper()
	d, err := l.open(number, o)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// must returns v, or panics with err: of calls that other tests check.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func check(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// noise returns n bytes that differ between seeds.
func noise(n int, seed uint64) []byte {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte(binary.LittleEndian.AppendUint64(make([]byte, 24), seed))).Read(b)
	return b
}

// TestCopies writes and reads values of all sizes around that of a slot, through slots
// and by registered blocks, with streams on time and late.
func TestCopies(t *testing.T) {
	for _, delay := range []string{"0", "20000"} {
		t.Run("late by "+delay+" us", func(t *testing.T) {
			t.Setenv("FAKECUDA_DELAY_US", delay)
			l := either(t)
			d := l.device(t, 0, small)
			if d.Info().Staged != nil {
				t.Errorf("segments can't be pinned: %v", d.Info().Staged)
			}
			pool, s := must(d.NewPool(memory.Handles)), must(d.NewStream())
			host := must(shm.NewArena(&shm.ArenaOptions{
				First: 2 * mib, OnSegment: func(seg *shm.Segment) { check(t, d.Register(seg)) },
				FreeSegment: func(seg *shm.Segment) { check(t, d.Unregister(seg)) },
			}))
			slot := small.Slot
			for i, n := range []int{0, 1, 255, 4096, slot - 1, slot, slot + 1, 9*slot + 7} {
				b := must(pool.Alloc(n))
				if p := pool.Address(b); p%256 != 0 {
					t.Errorf("a block of %d bytes begins at %#x, want a multiple of 256", n, p)
				}
				want := noise(n, uint64(i))
				got := make([]byte, n)
				src := bytes.Clone(want)
				check(t, s.Write(pool.Address(b), src))
				clear(src) // it is ours again
				check(t, s.Read(got, pool.Address(b)))
				if !bytes.Equal(got, want) {
					t.Errorf("%d bytes through slots came back different", n)
				}
				up, down := must(host.Alloc(n)), must(host.Alloc(n))
				want = noise(n, uint64(100+i))
				copy(up.Bytes(), want)
				check(t, s.Upload(pool.Address(b), up, n), s.Download(down, pool.Address(b), n), s.Sync())
				if !bytes.Equal(down.Bytes(), want) {
					t.Errorf("%d bytes of registered blocks came back different", n)
				}
				down.Release()
				b.Release()
			}
			if n := host.Stats().Blocks; n != 0 {
				t.Errorf("%d host blocks are held after Sync", n)
			}
			check(t, s.Close(), pool.Close(), host.Close(), d.Close())
			l.nothingLeft(t)
		})
	}
}

// TestForeignUpload checks that bytes which are not registered never get to the driver:
// the stand-in would refuse an asynchronous copy from them or read them late.
func TestForeignUpload(t *testing.T) {
	t.Setenv("FAKECUDA_DELAY_US", "20000")
	l := standIn(t)
	d := l.device(t, 0, small)
	pool, s := must(d.NewPool(memory.Handles)), must(d.NewStream())
	host := must(shm.NewArena(nil)) // as a peer's: not registered
	up, b := must(host.Alloc(100<<10)), must(pool.Alloc(100<<10))
	want, got := noise(up.Len(), 1), make([]byte, up.Len())
	copy(up.Bytes(), want)
	up.Retain()
	check(t, s.Upload(pool.Address(b), up, up.Len()))
	if up.Refs() != 1 {
		t.Errorf("%d references after a staged upload, want the test's own", up.Refs())
	}
	clear(up.Bytes()) // the device must not see this
	up.Release()
	check(t, s.Read(got, pool.Address(b)))
	if !bytes.Equal(got, want) {
		t.Error("the device read foreign memory after Upload had returned")
	}
	b.Release()
	check(t, s.Close(), pool.Close(), host.Close(), d.Close())
	l.nothingLeft(t)
}

// TestStaged makes the driver refuse to pin segments. All copies then go through slots.
func TestStaged(t *testing.T) {
	t.Setenv("FAKECUDA_FAIL", "cuMemHostRegister_v2:1=801")
	l := standIn(t)
	d := l.device(t, 0, small)
	if err := d.Info().Staged; !errors.Is(err, driver.NotSupported) {
		t.Errorf("staged because of %v, want %v", err, driver.NotSupported)
	}
	pool, s := must(d.NewPool(memory.Handles)), must(d.NewStream())
	host := must(shm.NewArena(&shm.ArenaOptions{OnSegment: func(seg *shm.Segment) { check(t, d.Register(seg)) }}))
	b, up, down := must(pool.Alloc(mib)), must(host.Alloc(mib)), must(host.Alloc(mib))
	want := noise(mib, 3)
	copy(up.Bytes(), want)
	check(t, s.Upload(pool.Address(b), up, mib), s.Download(down, pool.Address(b), mib))
	if !bytes.Equal(down.Bytes(), want) {
		t.Error("staged bytes came back different")
	}
	b.Release()
	down.Release()
	check(t, s.Close(), pool.Close(), host.Close(), d.Close())
	l.nothingLeft(t)
}

// TestUnrecordedSlot fails to record where a copy to the only slot ends. The copies that
// use the slot after it are right all the same.
func TestUnrecordedSlot(t *testing.T) {
	t.Setenv("FAKECUDA_DELAY_US", "20000")
	t.Setenv("FAKECUDA_FAIL", "cuEventRecord:3=2")
	l := standIn(t)
	d := l.device(t, 0, &memory.Options{Segment: 4 * mib, Slots: 1, Slot: 4096})
	pool, s := must(d.NewPool(memory.Handles)), must(d.NewStream())
	a, b := must(pool.Alloc(4096)), must(pool.Alloc(4096))
	want, got := noise(4096, 1), make([]byte, 4096)
	check(t, s.Write(pool.Address(a), noise(4096, 2)), s.Write(pool.Address(b), noise(4096, 3)))
	if err := s.Read(got, pool.Address(a)); !errors.Is(err, driver.OutOfMemory) {
		t.Errorf("a copy whose end the driver can't record: %v, want %v", err, driver.OutOfMemory)
	}
	check(t, s.Write(pool.Address(b), want), s.Read(got, pool.Address(b)))
	if !bytes.Equal(got, want) {
		t.Error("the copy before wrote to the slot after Write had filled it")
	}
	a.Release()
	b.Release()
	check(t, s.Close(), pool.Close(), d.Close())
	l.nothingLeft(t)
}

// TestReleaseInOrder checks that a block which late work reads is not handed out again
// before that work is done, and that Mark doesn't wait.
func TestReleaseInOrder(t *testing.T) {
	t.Setenv("FAKECUDA_DELAY_US", "20000")
	l := standIn(t)
	d := l.device(t, 0, small)
	pool, s, other := must(d.NewPool(memory.Handles)), must(d.NewStream()), must(d.NewStream())
	gate, b, c := must(pool.Alloc(4)), must(pool.Alloc(mib)), must(pool.Alloc(mib))
	check(t, s.Write(pool.Address(gate), make([]byte, 4)), s.Write(pool.Address(b), noise(mib, 4)), s.Sync())
	check(t, d.Do(func() error { return d.API().StreamWaitValue32(s.Driver(), pool.Address(gate), 1) }))
	check(t, d.Do(func() error {
		return d.API().CopyDtoDAsync(pool.Address(c), pool.Address(b), mib, s.Driver())
	}))
	b.Retain()
	s.Release(b)
	check(t, s.Mark())
	if b.Refs() != 2 {
		t.Errorf("%d references while the stream waits, want 2", b.Refs())
	}
	check(t, other.After(s)) // and so reads what s copies
	check(t, d.Do(func() error {
		one := must(d.NewStream())
		err := one.Write(pool.Address(gate), []byte{1, 0, 0, 0})
		return errors.Join(err, one.Close())
	}))
	got := make([]byte, mib)
	check(t, other.Read(got, pool.Address(c)))
	if !bytes.Equal(got, noise(mib, 4)) {
		t.Error("a stream did not wait for the other")
	}
	check(t, s.Mark())
	if b.Refs() != 1 {
		t.Errorf("%d references behind the work, want the test's own", b.Refs())
	}
	for _, x := range []*shm.Block{gate, b, c} {
		x.Release()
	}
	check(t, s.Close(), other.Close(), pool.Close(), d.Close())
	l.nothingLeft(t)
}

// TestOutOfMemory fills a device of 16 MiB. An Alloc that fits after unused segments of
// other pools and blocks of late work were given back succeeds; one that doesn't is an
// error for its session alone.
func TestOutOfMemory(t *testing.T) {
	t.Setenv("FAKECUDA_MEMORY_MIB", "16")
	t.Setenv("FAKECUDA_DELAY_US", "20000")
	l := standIn(t)
	d := l.device(t, 0, small)
	first, second := must(d.NewPool(memory.Handles)), must(d.NewPool(memory.Handles))
	s1, s2 := must(d.NewStream()), must(d.NewStream())
	want := noise(mib, 5)
	keep := must(second.Alloc(mib))
	check(t, s2.Write(second.Address(keep), want))

	idle := must(first.Alloc(4 * mib)) // a whole segment
	check(t, s1.Write(first.Address(idle), want))
	s1.Release(idle)
	big := must(second.Alloc(12 * mib)) // beside the segment of keep there is no more
	if _, err := first.Alloc(mib); !errors.Is(err, shm.ErrNoSpace) || !errors.Is(err, driver.OutOfMemory) {
		t.Errorf("a full device: %v, want %v because of %v", err, shm.ErrNoSpace, driver.OutOfMemory)
	}
	got := make([]byte, mib)
	check(t, s2.Read(got, second.Address(keep)))
	if !bytes.Equal(got, want) {
		t.Error("the other session's bytes changed")
	}
	big.Release()
	b, err := first.Alloc(8 * mib)
	check(t, err, d.Lost())
	b.Release()
	keep.Release()
	check(t, s1.Close(), s2.Close(), first.Close(), second.Close(), d.Close())
	l.nothingLeft(t)
}

// TestLost loses one device of two. Each of its calls says why from then on, blocks are
// released all the same, and a session on the other device goes on.
func TestLost(t *testing.T) {
	t.Setenv("FAKECUDA_FAIL", "cuMemcpyDtoDAsync_v2:1=700")
	l := standIn(t)
	d, other := l.device(t, 0, small), l.device(t, 1, small)
	pool, s := must(d.NewPool(memory.Handles)), must(d.NewStream())
	pool2, s2 := must(other.NewPool(memory.Handles)), must(other.NewStream())
	b, b2 := must(pool.Alloc(mib)), must(pool2.Alloc(mib))
	want, got := noise(mib, 6), make([]byte, mib)
	check(t, s2.Write(pool2.Address(b2), want))
	s.Release(b)
	lost := d.Do(func() error { return d.API().CopyDtoDAsync(pool.Address(b), pool.Address(b), 1, s.Driver()) })
	_, alloc := pool.Alloc(16 * mib)
	for name, err := range map[string]error{
		"the call": lost, "Lost": d.Lost(), "Alloc": alloc, "Write": s.Write(0, want), "Sync": s.Sync(), "Stream.Close": s.Close(), "Pool.Close": pool.Close(),
	} {
		if !errors.Is(err, memory.ErrLost) || !errors.Is(err, driver.IllegalAddress) || !strings.Contains(err.Error(), d.Info().Name) {
			t.Errorf("%s: %v, want %v that names the device and %v", name, err, memory.ErrLost, driver.IllegalAddress)
		}
	}
	if n := pool.Arena().Stats().Blocks; n != 0 {
		t.Errorf("%d blocks are held on a lost device", n)
	}
	check(t, other.Lost(), s2.Read(got, pool2.Address(b2)))
	if !bytes.Equal(got, want) {
		t.Error("the session on the other device read other bytes")
	}
	b2.Release()
	check(t, s2.Close(), pool2.Close(), other.Close(), d.Close())
}
