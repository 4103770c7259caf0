package drivertest

import (
	"bytes"
	"encoding/binary"
	"runtime"
	"testing"

	"github.com/ringside-go/ringside/tensor/cuda/driver"
)

func (e *env) facts(t *testing.T) {
	n := must(e.DeviceCount())(t)
	if n < 1 {
		t.Fatalf("%d devices after Init", n)
	}
	seen := map[driver.UUID]bool{}
	for i := range n {
		d := must(e.DeviceGet(i))(t)
		name, bus := must(e.DeviceName(d))(t), must(e.DevicePCIBus(d))(t)
		if name == "" || len(bus) < len("00:00.0") {
			t.Errorf("device %d is %q at %q", i, name, bus)
		}
		if b := must(e.DeviceMemory(d))(t); b < 1<<20 {
			t.Errorf("device %d has %d bytes", i, b)
		}
		if w := must(e.DeviceAttribute(d, driver.WarpSize))(t); w != 32 {
			t.Errorf("warps of %d threads", w)
		}
		if u := must(e.DeviceAttribute(d, driver.UnifiedAddressing))(t); u != 1 {
			t.Errorf("device %d has no unified addresses", i)
		}
		seen[must(e.DeviceUUID(d))(t)] = true
	}
	if len(seen) != n {
		t.Errorf("%d devices have %d UUIDs", n, len(seen))
	}
}

// contexts checks that a context is current on one thread alone, and that the primary
// context is the same however often it is retained.
func (e *env) contexts(t *testing.T) {
	d := must(e.DeviceGet(0))(t)
	c := must(e.PrimaryRetain(d))(t)
	if again := must(e.PrimaryRetain(d))(t); again != c {
		t.Errorf("contexts %x and %x of one device", c, again)
	}
	check(t, e.PrimaryRelease(d))
	check(t, driver.Bind(e, c, func() error {
		if got := must(e.Current())(t); got != c {
			t.Errorf("%x is current, want %x", got, c)
		}
		if got := must(e.CurrentDevice())(t); got != d {
			t.Errorf("device %d is current, want %d", got, d)
		}
		other := make(chan error)
		go func() { // on another thread, since this goroutine holds its own
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			other <- fails(e.Alloc(512))
		}()
		if err := <-other; code(err) != driver.InvalidContext {
			t.Errorf("another thread allocates: %v", err)
		}
		return nil
	}))
	check(t, e.PrimaryRelease(d))
	if _, active, err := e.PrimaryState(d); err != nil || active {
		t.Errorf("active %v after the last release, %v", active, err)
	}
}

func (e *env) memory(t *testing.T) {
	free, total, err := e.MemInfo()
	check(t, err)
	if free > total {
		t.Errorf("%d of %d bytes are free", free, total)
	}
	const n = 5<<20 + 3
	p := must(e.Alloc(n))(t)
	if p%256 != 0 {
		t.Errorf("an allocation begins at %#x, want a multiple of 256", p)
	}
	base, size, err := e.AddressRange(p + 12345)
	check(t, err)
	if base != p || size != n {
		t.Errorf("range %#x, %d bytes, want %#x, %d", base, size, p, n)
	}
	if v := must(e.PointerAttribute(p, driver.PointerMemoryType))(t); v != 2 {
		t.Errorf("memory of type %d, want a device's", v)
	}
	if v := must(e.PointerAttribute(p, driver.PointerIPCCapable))(t); v != 1 {
		t.Errorf("an allocation can't be exported: %d", v)
	}
	id := must(e.PointerAttribute(p, driver.PointerBufferID))(t)
	check(t, e.Free(p))
	q := must(e.Alloc(n))(t)
	if again := must(e.PointerAttribute(q, driver.PointerBufferID))(t); again == id {
		t.Errorf("buffer %d twice", id)
	}
	check(t, e.Free(q))
	if after, _, err := e.MemInfo(); err != nil || after != free {
		t.Errorf("%d bytes are free, %d before, %v", after, free, err)
	}
}

func (e *env) copies(t *testing.T) {
	const n, at = 1 << 20, 4097
	p, q := must(e.Alloc(n))(t), must(e.Alloc(n))(t)
	data, back := noise(n, 1), make([]byte, n)
	check(t, e.CopyHtoD(p, data))
	check(t, e.CopyDtoD(q+at, p, n-at))
	check(t, e.CopyDtoH(back[:n-at], q+at))
	if !bytes.Equal(back[:n-at], data[:n-at]) {
		t.Error("the bytes changed on the way")
	}
	s := must(e.StreamCreate(driver.StreamNonBlocking, 0))(t)
	pinned := must(e.HostAlloc(n, driver.HostPortable))(t)
	copy(pinned, noise(n, 2))
	check(t, e.CopyHtoDAsync(p, pinned, s))
	check(t, e.CopyDtoDAsync(q, p, n, s))
	check(t, e.CopyPeerAsync(p, e.context, q, e.context, n/2, s))
	check(t, e.Fill8Async(q, 0xab, 1000, s))
	check(t, e.Fill32Async(q+2048, 0x01020304, 2, s))
	check(t, e.StreamSynchronize(s))
	check(t, e.CopyDtoHAsync(pinned, q, s))
	check(t, e.StreamSynchronize(s))
	want := noise(n, 2)
	copy(want, bytes.Repeat([]byte{0xab}, 1000))
	copy(want[2048:], []byte{4, 3, 2, 1, 4, 3, 2, 1})
	if !bytes.Equal(pinned, want) {
		t.Error("asynchronous copies and fills gave other bytes")
	}
	check(t, e.HostFree(pinned))
	check(t, e.StreamDestroy(s))
	check(t, e.Free(p))
	check(t, e.Free(q))
}

// rows copies a part of a matrix to the device and into another matrix.
func (e *env) rows(t *testing.T) {
	const width, height, srcPitch, dstPitch = 24, 10, 64, 32
	p := must(e.Alloc(height * 512))(t)
	src, dst := noise(srcPitch*(height-1)+width, 3), make([]byte, dstPitch*height)
	check(t, e.Copy2D(&driver.Copy2D{SrcHost: src, SrcPitch: srcPitch, DstDevice: p, DstPitch: 512, Width: width, Height: height}))
	check(t, e.Copy2DAsync(&driver.Copy2D{SrcDevice: p, SrcPitch: 512, DstHost: dst, DstPitch: dstPitch, Width: width, Height: height}, 0))
	check(t, e.Synchronize())
	for i := range height {
		if got, want := dst[i*dstPitch:][:width], src[i*srcPitch:][:width]; !bytes.Equal(got, want) {
			t.Errorf("row %d is %x, want %x", i, got, want)
		}
		if gap := dst[i*dstPitch+width : (i+1)*dstPitch]; !bytes.Equal(gap, make([]byte, len(gap))) {
			t.Errorf("bytes after row %d were written", i)
		}
	}
	check(t, e.Free(p))
}

func (e *env) host(t *testing.T) {
	b := must(e.HostAlloc(64<<10, driver.HostPortable|driver.HostDeviceMap))(t)
	p := must(e.HostDevicePointer(b))(t)
	copy(b, noise(len(b), 4))
	d := must(e.Alloc(uint64(len(b))))(t)
	check(t, e.CopyDtoD(d, p, uint64(len(b))))
	back := make([]byte, len(b))
	check(t, e.CopyDtoH(back, d))
	if !bytes.Equal(back, b) {
		t.Error("the device reads other bytes than the host wrote")
	}
	if f := must(e.HostFlags(b))(t); f&driver.HostPortable == 0 {
		t.Errorf("flags %x without portable", f)
	}
	if err := e.HostRegister(b, 0); code(err) != driver.AlreadyRegistered {
		t.Errorf("registering pinned memory: %v", err)
	}
	check(t, e.Free(d))
	check(t, e.HostFree(b))
}

// streams holds a stream by a value in memory, so that what is behind it is known to
// wait.
func (e *env) streams(t *testing.T) {
	gate := must(e.Alloc(4))(t)
	check(t, e.CopyHtoD(gate, make([]byte, 4)))
	first, second := must(e.StreamCreate(driver.StreamNonBlocking, 0))(t), must(e.StreamCreate(driver.StreamNonBlocking, -1))(t)
	opener := must(e.StreamCreate(driver.StreamNonBlocking, 0))(t)
	start, end := must(e.EventCreate(0))(t), must(e.EventCreate(driver.EventBlockingSync))(t)
	if done := must(e.EventQuery(end))(t); !done {
		t.Error("an event that was never recorded is awaited")
	}
	check(t, e.EventRecord(start, first))
	check(t, e.StreamWaitValue32(first, gate, 7))
	check(t, e.EventRecord(end, first))
	check(t, e.StreamWaitEvent(second, end))
	for _, s := range []driver.Stream{first, second} {
		if done := must(e.StreamQuery(s))(t); done {
			t.Error("a stream is done before the value it waits for")
		}
	}
	if done := must(e.EventQuery(end))(t); done {
		t.Error("an event is reached before the value its stream waits for")
	}
	check(t, e.EventSynchronize(start))
	if _, err := e.EventElapsed(start, end); code(err) != driver.NotReady {
		t.Errorf("the time to an event that is not reached: %v", err)
	}
	check(t, e.StreamWriteValue32(opener, gate, 7))
	check(t, e.EventSynchronize(end))
	check(t, e.StreamSynchronize(second))
	if ms := must(e.EventElapsed(start, end))(t); ms < 0 {
		t.Errorf("%g ms between events", ms)
	}
	for _, s := range []driver.Stream{first, second, opener} {
		check(t, e.StreamDestroy(s))
	}
	for _, ev := range []driver.Event{start, end} {
		check(t, e.EventDestroy(ev))
	}
	check(t, e.Free(gate))
}

// values checks the order of writes in one stream, and that waiting for a value compares
// the signed difference.
func (e *env) values(t *testing.T) {
	p := must(e.Alloc(4))(t)
	s := must(e.StreamCreate(driver.StreamNonBlocking, 0))(t)
	check(t, e.StreamWriteValue32(s, p, 1))
	check(t, e.StreamWriteValue32(s, p, 3))
	check(t, e.StreamWaitValue32(s, p, 0xffffffff))
	check(t, e.StreamWaitValue32(s, p, 2))
	check(t, e.StreamSynchronize(s))
	b := make([]byte, 4)
	check(t, e.CopyDtoH(b, p))
	if v := binary.NativeEndian.Uint32(b); v != 3 {
		t.Errorf("%d is there, want the last write", v)
	}
	check(t, e.StreamDestroy(s))
	check(t, e.Free(p))
}

// virtual maps one memory at two addresses.
func (e *env) virtual(t *testing.T) {
	n := must(e.VirtualGranularity(e.device))(t)
	m := must(e.VirtualCreate(e.device, n))(t)
	p, q := must(e.VirtualReserve(n))(t), must(e.VirtualReserve(n))(t)
	check(t, e.VirtualMap(p, n, m))
	check(t, e.VirtualMap(q, n, m))
	check(t, e.VirtualRelease(m))
	data, back := noise(4096, 5), make([]byte, 4096)
	if err := e.CopyHtoD(p, data); code(err) != driver.InvalidValue {
		t.Errorf("copying to memory without access: %v", err)
	}
	for _, at := range []driver.DevicePtr{p, q} {
		check(t, e.VirtualAccess(at, n, e.device, driver.AccessReadWrite))
	}
	check(t, e.CopyHtoD(p+4096, data))
	check(t, e.CopyDtoH(back, q+4096))
	if !bytes.Equal(back, data) {
		t.Error("two addresses of one memory hold different bytes")
	}
	if _, err := e.IPCGetMemory(p); code(err) != driver.InvalidValue {
		t.Errorf("a legacy handle of virtual memory: %v", err)
	}
	for _, at := range []driver.DevicePtr{p, q} {
		check(t, e.VirtualUnmap(at, n))
		check(t, e.VirtualFree(at, n))
	}
}
