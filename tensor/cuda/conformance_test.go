package cuda_test

import (
	"os"
	"testing"

	"github.com/ringside-go/ringside/collective/testsize"
	"github.com/ringside-go/ringside/shm"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/autograd"
	"github.com/ringside-go/ringside/tensor/cpu"
	"github.com/ringside-go/ringside/tensor/cuda"
	"github.com/ringside-go/ringside/tensor/cuda/blas"
	"github.com/ringside-go/ringside/tensor/cuda/cudatest"
	"github.com/ringside-go/ringside/tensor/cuda/driver"
	"github.com/ringside-go/ringside/tensor/cuda/memory"
	"github.com/ringside-go/ringside/tensor/device"
	"github.com/ringside-go/ringside/tensor/device/devicetest"
	"github.com/ringside-go/ringside/tensor/enginetest"
)

// small are the options of devices that tests open by the hundred.
var small = cuda.Options{
	Host:   cpu.Options{Arena: shm.ArenaOptions{First: 1 << 20}},
	Memory: memory.Options{Segment: 4 << 20, Slots: 4, Slot: 64 << 10},
}

// standIn returns the driver of a stand-in of the test's own, or of the library that is
// given.
func standIn(t *testing.T, seed uint64) driver.API {
	return opened(t, *given, seed)
}

// standIns is standIn with the library of products over it.
func standIns(t *testing.T, seed uint64) (driver.API, blas.Library) {
	api, launches := cudatest.Open(t, seed, os.Getenv)
	return api, cudatest.Products(t, launches)
}

// open returns a device, which the caller closes.
func open(t *testing.T, api driver.API, o cuda.Options) *cuda.Device {
	t.Helper()
	d, err := cuda.Open(api, 0, &o)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// variant is a way to run programs.
type variant struct {
	name     string
	seed     uint64 // of the order of blocks and warps
	products bool   // with the library
	vary     func(o *cuda.Options)
}

// variants are those that the suites are run in: fused and not, each in three orders. A
// short test runs the first, one under the race detector the first five.
func variants() []variant {
	all := []variant{
		{"kernels", 1, false, func(*cuda.Options) {}},
		{"products of a library", 1, true, func(*cuda.Options) {}},
		{"kernels, another order", 2, false, func(*cuda.Options) {}},
		{"unfused", 3, true, func(o *cuda.Options) { o.Host.NoFuse = true }},
		{"host steps", 0, true, func(o *cuda.Options) { o.HostSteps = true }},
		{"kernels, a third order", 3, false, func(*cuda.Options) {}},
		{"unfused, another order", 1, false, func(o *cuda.Options) { o.Host.NoFuse = true }},
		{"unfused, a third order", 2, false, func(o *cuda.Options) { o.Host.NoFuse = true }},
	}
	if testing.Short() {
		return all[:1]
	}
	if testsize.Sampled() {
		return all[:5]
	}
	return all
}

// with returns options and a stand-in for a variant.
func (v *variant) with(t *testing.T) (cuda.Options, driver.API) {
	o := small
	v.vary(&o)
	if !v.products {
		return o, standIn(t, v.seed)
	}
	api, library := standIns(t, v.seed)
	o.Products = library
	return o, api
}

// TestDevice runs the suite of devices.
func TestDevice(t *testing.T) {
	for _, v := range variants() {
		t.Run(v.name, func(t *testing.T) {
			o, api := v.with(t)
			devicetest.Run(t, func(t *testing.T) device.Device { return open(t, api, o) })
		})
	}
}

// TestConformance runs the suite of engines.
func TestConformance(t *testing.T) {
	programs := 40
	if testing.Short() {
		programs = 10
	}
	for _, v := range variants() {
		t.Run(v.name, func(t *testing.T) {
			o, api := v.with(t)
			hosts := map[string]uint64{}
			t.Cleanup(func() {
				if t.Logf("steps on the host: %v", hosts); len(hosts) > 0 && !o.HostSteps {
					t.Errorf("on the host ran %v", hosts)
				}
			})
			enginetest.Run(t, func(t *testing.T) tensor.Engine {
				d := open(t, api, o)
				t.Cleanup(func() {
					for name, n := range d.Counters().HostSteps {
						hosts[name] += n
					}
					if s := d.Stats(); s.Values.Blocks > 0 || s.Arena.Blocks > 0 {
						t.Errorf("%d values and %d blocks are left when every engine is closed", s.Values.Blocks, s.Arena.Blocks)
					}
					if err := d.Close(); err != nil {
						t.Error(err)
					}
				})
				return device.NewEngine(d)
			}, &enginetest.Options{
				Programs: programs,
				Whole:    true, // a failure is found when all of a program has run
				Grad: func(loss *tensor.Tensor, xs ...*tensor.Tensor) ([]*tensor.Tensor, error) {
					return autograd.Grad(loss, xs...)
				},
				PlanHits: func(e tensor.Engine) uint64 { return device.Of(e).Stats().Hits },
			})
		})
	}
}
