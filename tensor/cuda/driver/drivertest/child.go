package drivertest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"

	"github.com/ringside-go/ringside/tensor/cuda/driver"
)

// order is what a process hands to its child: memory with an offset inside, and an event
// after which the memory holds noise of seed 6. The child turns every byte over. Memory
// by descriptor is the first extra file, and holds noise of seed 7.
type order struct {
	Memory, Event driver.IPCHandle
	Offset        uint64
	Bytes         int
	Mapped        uint64
}

const descriptor = 3 // the first of exec.Cmd.ExtraFiles

// Child reads an order from in and carries it out. It returns an error where something
// differs from what the order says.
func Child(a driver.API, in io.Reader) error {
	var o order
	if err := json.NewDecoder(in).Decode(&o); err != nil {
		return err
	}
	if err := a.Init(); err != nil {
		return err
	}
	d, err := a.DeviceGet(0)
	if err != nil {
		return err
	}
	c, err := a.PrimaryRetain(d)
	if err != nil {
		return err
	}
	return driver.Bind(a, c, func() error {
		if err := imported(a, &o); err != nil {
			return fmt.Errorf("by handle: %w", err)
		}
		if err := mapped(a, d, &o); err != nil {
			return fmt.Errorf("by descriptor: %w", err)
		}
		return a.PrimaryRelease(d)
	})
}

// imported opens the memory twice, waits for the event in a stream and turns the bytes.
func imported(a driver.API, o *order) error {
	p, err := a.IPCOpenMemory(o.Memory)
	if err != nil {
		return err
	}
	if again, err := a.IPCOpenMemory(o.Memory); err != nil || again != p {
		return fmt.Errorf("opened again at %#x, first at %#x: %w", again, p, err)
	}
	if err := a.Free(p); code(err) != driver.InvalidValue {
		return fmt.Errorf("memory of another process is freed: %w", err)
	}
	e, err := a.IPCOpenEvent(o.Event)
	if err != nil {
		return err
	}
	s, err := a.StreamCreate(driver.StreamNonBlocking, 0)
	if err != nil {
		return err
	}
	b, err := a.HostAlloc(o.Bytes, 0)
	if err != nil {
		return err
	}
	at := p + driver.DevicePtr(o.Offset)
	for _, err := range []error{a.StreamWaitEvent(s, e), a.CopyDtoHAsync(b, at, s), a.StreamSynchronize(s)} {
		if err != nil {
			return err
		}
	}
	if !bytes.Equal(b, noise(o.Bytes, 6)) {
		return fmt.Errorf("other bytes than the exporter's")
	}
	for i := range b {
		b[i] ^= 0xff
	}
	for _, err := range []error{
		a.CopyHtoD(at, b), a.IPCCloseMemory(p), a.IPCCloseMemory(p),
		a.EventDestroy(e), a.StreamDestroy(s), a.HostFree(b),
	} {
		if err != nil {
			return err
		}
	}
	if err := a.IPCCloseMemory(p); code(err) != driver.InvalidValue {
		return fmt.Errorf("closed more often than opened: %w", err)
	}
	return nil
}

func mapped(a driver.API, d driver.Device, o *order) error {
	m, err := a.VirtualImport(descriptor)
	if err != nil {
		return err
	}
	p, err := a.VirtualReserve(o.Mapped)
	if err != nil {
		return err
	}
	b := make([]byte, o.Bytes)
	for _, err := range []error{
		a.VirtualMap(p, o.Mapped, m), a.VirtualRelease(m), a.VirtualAccess(p, o.Mapped, d, driver.AccessRead), a.CopyDtoH(b, p),
	} {
		if err != nil {
			return err
		}
	}
	if !bytes.Equal(b, noise(o.Bytes, 7)) {
		return fmt.Errorf("other bytes than the exporter's")
	}
	if err := a.VirtualUnmap(p, o.Mapped); err != nil {
		return err
	}
	return a.VirtualFree(p, o.Mapped)
}

// processes hands memory to children, by handle and by descriptor. The event is recorded
// after they were started with its handle.
func (e *env) processes(t *testing.T, children int) {
	const n, offset = 1 << 20, 3 << 20
	p := must(e.Alloc(8 << 20))(t)
	event := must(e.EventCreate(driver.EventInterprocess | driver.EventDisableTiming))(t)
	s := must(e.StreamCreate(driver.StreamNonBlocking, 0))(t)
	pinned := must(e.HostAlloc(n, 0))(t)
	copy(pinned, noise(n, 6))

	granule := must(e.VirtualGranularity(e.device))(t)
	m := must(e.VirtualCreate(e.device, granule))(t)
	v := must(e.VirtualReserve(granule))(t)
	check(t, e.VirtualMap(v, granule, m))
	check(t, e.VirtualAccess(v, granule, e.device, driver.AccessReadWrite))
	check(t, e.CopyHtoD(v, noise(n, 7)))
	file := os.NewFile(uintptr(must(e.VirtualExport(m))(t)), "memory")

	// A handle names the whole allocation, wherever in it the address lies.
	o := order{Memory: must(e.IPCGetMemory(p))(t), Event: must(e.IPCGetEvent(event))(t), Bytes: n, Mapped: granule}
	all, out := make([]*exec.Cmd, children), make([]bytes.Buffer, children)
	orders := make([]io.WriteCloser, children)
	for k, cmd := range all {
		cmd = e.options.Child()
		cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = &out[k], &out[k], []*os.File{file}
		orders[k] = must(cmd.StdinPipe())(t)
		check(t, cmd.Start())
		check(t, e.CopyHtoDAsync(p+offset+driver.DevicePtr(k*n), pinned, s))
		all[k] = cmd
	}
	check(t, e.EventRecord(event, s))
	for k, in := range orders {
		o.Offset = offset + uint64(k)*n
		check(t, json.NewEncoder(in).Encode(o))
		check(t, in.Close())
	}
	for k, cmd := range all {
		if err := cmd.Wait(); err != nil {
			t.Fatalf("child %d: %v\n%s", k, err, &out[k])
		}
	}
	back, want := make([]byte, n), noise(n, 6)
	for i := range want {
		want[i] ^= 0xff
	}
	for k := range all {
		check(t, e.CopyDtoH(back, p+offset+driver.DevicePtr(k*n)))
		if !bytes.Equal(back, want) {
			t.Errorf("the bytes of child %d did not arrive", k)
		}
	}
	for _, err := range []error{
		file.Close(), e.VirtualUnmap(v, granule), e.VirtualFree(v, granule), e.VirtualRelease(m),
		e.HostFree(pinned), e.StreamDestroy(s), e.EventDestroy(event), e.Free(p),
	} {
		check(t, err)
	}
}
