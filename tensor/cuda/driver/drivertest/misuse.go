package drivertest

import (
	"testing"

	"github.com/ringside-go/ringside/tensor/cuda/driver"
)

// row is a call that must fail, or that looks wrong and must not.
type row struct {
	name string
	call func(a driver.API) error
	want driver.Result
}

func misuse(t *testing.T, a driver.API, rows []row) {
	for _, r := range rows {
		if err := r.call(a); code(err) != r.want {
			t.Errorf("%s: %v, want code %d", r.name, err, r.want)
		}
	}
}

const nowhere driver.DevicePtr = 512 // lies in no allocation

var beforeInit = []row{
	{"SetCurrent", func(a driver.API) error { return a.SetCurrent(0) }, driver.NotInitialized},
	{"Current", func(a driver.API) error { return fails(a.Current()) }, driver.NotInitialized},
	{"DeviceCount", func(a driver.API) error { return fails(a.DeviceCount()) }, driver.NotInitialized},
	{"DeviceGet", func(a driver.API) error { return fails(a.DeviceGet(0)) }, driver.NotInitialized},
	{"PrimaryRetain", func(a driver.API) error { return fails(a.PrimaryRetain(0)) }, driver.NotInitialized},
	{"Alloc", func(a driver.API) error { return fails(a.Alloc(1)) }, driver.NotInitialized},
	{"StreamCreate", func(a driver.API) error { return fails(a.StreamCreate(0, 0)) }, driver.NotInitialized},
	{"Synchronize", func(a driver.API) error { return a.Synchronize() }, driver.NotInitialized},
	{"Version", func(a driver.API) error { return fails(a.Version()) }, driver.Success},
}

var misuseOfDevices = []row{
	{"DeviceGet(-1)", func(a driver.API) error { return fails(a.DeviceGet(-1)) }, driver.InvalidDevice},
	{"DeviceGet(1000)", func(a driver.API) error { return fails(a.DeviceGet(1000)) }, driver.InvalidDevice},
	{"DeviceName(1000)", func(a driver.API) error { return fails(a.DeviceName(1000)) }, driver.InvalidDevice},
	{"DeviceAttribute(-1)", func(a driver.API) error { return fails(a.DeviceAttribute(0, -1)) }, driver.InvalidValue},
	{"PrimaryRetain(1000)", func(a driver.API) error { return fails(a.PrimaryRetain(1000)) }, driver.InvalidDevice},
	{"PrimaryRelease of none", func(a driver.API) error { return a.PrimaryRelease(0) }, driver.InvalidContext},
}

var withoutContext = []row{
	{"Current", func(a driver.API) error { return fails(a.Current()) }, driver.Success},
	{"CurrentDevice", func(a driver.API) error { return fails(a.CurrentDevice()) }, driver.InvalidContext},
	{"Synchronize", func(a driver.API) error { return a.Synchronize() }, driver.InvalidContext},
	{"Alloc", func(a driver.API) error { return fails(a.Alloc(512)) }, driver.InvalidContext},
	{"HostAlloc", func(a driver.API) error { return fails(a.HostAlloc(4096, 0)) }, driver.InvalidContext},
	{"HostDevicePointer", func(a driver.API) error { return fails(a.HostDevicePointer(make([]byte, 8))) }, driver.InvalidContext},
	{"StreamCreate", func(a driver.API) error { return fails(a.StreamCreate(0, 0)) }, driver.InvalidContext},
	{"EventCreate", func(a driver.API) error { return fails(a.EventCreate(0)) }, driver.InvalidContext},
	{"ModuleLoad", func(a driver.API) error { return fails(a.ModuleLoad("")) }, driver.InvalidContext},
}

var withContext = []row{
	{"Alloc of nothing", func(a driver.API) error { return fails(a.Alloc(0)) }, driver.InvalidValue},
	{"Alloc of too much", func(a driver.API) error { return fails(a.Alloc(1 << 50)) }, driver.OutOfMemory},
	{"Free of no allocation", func(a driver.API) error { return a.Free(nowhere) }, driver.InvalidValue},
	{"Free inside an allocation", allocated(func(a driver.API, p driver.DevicePtr) error { return a.Free(p + 512) }), driver.InvalidValue},
	{"AddressRange of no allocation", func(a driver.API) error { _, _, err := a.AddressRange(nowhere); return err }, driver.NotFound},
	{"PointerAttribute of no allocation", func(a driver.API) error { return fails(a.PointerAttribute(nowhere, driver.PointerBufferID)) }, driver.InvalidValue},
	{"CopyHtoD to no allocation", func(a driver.API) error { return a.CopyHtoD(nowhere, make([]byte, 8)) }, driver.InvalidValue},
	{"CopyDtoH from no allocation", func(a driver.API) error { return a.CopyDtoH(make([]byte, 8), nowhere) }, driver.InvalidValue},
	{"CopyHtoD past the end", allocated(func(a driver.API, p driver.DevicePtr) error { return a.CopyHtoD(p, make([]byte, 4<<20+1)) }), driver.InvalidValue},
	{"CopyHtoD of nothing", allocated(func(a driver.API, p driver.DevicePtr) error { return a.CopyHtoD(p, nil) }), driver.Success},
	{"Fill32Async at an odd address", allocated(func(a driver.API, p driver.DevicePtr) error { return a.Fill32Async(p+2, 1, 1, 0) }), driver.InvalidValue},
	{"HostAlloc of nothing", func(a driver.API) error { return fails(a.HostAlloc(0, 0)) }, driver.InvalidValue},
	{"HostFree of other memory", func(a driver.API) error { return a.HostFree(make([]byte, 4096)) }, driver.InvalidValue},
	{"HostUnregister of other memory", func(a driver.API) error { return a.HostUnregister(make([]byte, 4096)) }, driver.NotRegistered},
	{"HostRegister of nothing", func(a driver.API) error { return a.HostRegister(nil, 0) }, driver.InvalidValue},
	{"HostDevicePointer of other memory", func(a driver.API) error { return fails(a.HostDevicePointer(make([]byte, 8))) }, driver.InvalidValue},
	{"HostFlags of other memory", func(a driver.API) error { return fails(a.HostFlags(make([]byte, 8))) }, driver.InvalidValue},
	{"EventCreate for others, with timing", func(a driver.API) error { return fails(a.EventCreate(driver.EventInterprocess)) }, driver.InvalidValue},
	{"EventElapsed without timing", events(driver.EventDisableTiming, true), driver.InvalidHandle},
	{"EventElapsed of none recorded", events(0, false), driver.InvalidHandle},
	{"IPCGetEvent of an event of this process", func(a driver.API) error {
		e, err := a.EventCreate(driver.EventDisableTiming)
		if err != nil {
			return err
		}
		defer a.EventDestroy(e)
		return fails(a.IPCGetEvent(e))
	}, driver.InvalidHandle},
	{"IPCGetMemory of no allocation", func(a driver.API) error { return fails(a.IPCGetMemory(nowhere)) }, driver.InvalidValue},
	{"IPCOpenMemory of zeros", func(a driver.API) error { return fails(a.IPCOpenMemory(driver.IPCHandle{})) }, driver.InvalidValue},
	{"IPCOpenMemory of this process", allocated(func(a driver.API, p driver.DevicePtr) error {
		h, err := a.IPCGetMemory(p)
		if err != nil {
			return err
		}
		return fails(a.IPCOpenMemory(h))
	}), driver.InvalidContext},
	{"IPCCloseMemory of an allocation", allocated(func(a driver.API, p driver.DevicePtr) error { return a.IPCCloseMemory(p) }), driver.InvalidValue},
	{"VirtualCreate of half a granule", func(a driver.API) error {
		n, err := a.VirtualGranularity(0)
		if err != nil {
			return err
		}
		return fails(a.VirtualCreate(0, n/2))
	}, driver.InvalidValue},
}

// allocated gives a call an allocation of 4 MiB.
func allocated(f func(driver.API, driver.DevicePtr) error) func(driver.API) error {
	return func(a driver.API) error {
		p, err := a.Alloc(4 << 20)
		if err != nil {
			return err
		}
		result := f(a, p)
		if err := a.Free(p); err != nil {
			return err
		}
		return result
	}
}

// events asks for the time between two events.
func events(flags driver.EventFlags, record bool) func(driver.API) error {
	return func(a driver.API) error {
		e, err := a.EventCreate(flags)
		if err != nil {
			return err
		}
		defer a.EventDestroy(e)
		if record {
			if err := a.EventRecord(e, 0); err != nil {
				return err
			}
			if err := a.EventSynchronize(e); err != nil {
				return err
			}
		}
		return fails(a.EventElapsed(e, e))
	}
}
