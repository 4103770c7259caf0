package drivertest

import (
	"testing"

	"github.com/ringside-go/ringside/tensor/cuda/driver"
)

// Run runs the suite over api, on which Init was not called yet in this process unless
// o says so. It leaves nothing allocated.
func Run(t *testing.T, api driver.API, o Options) {
	if !o.Initialized {
		t.Run("misuse before Init", func(t *testing.T) { BeforeInit(t, api) })
	}
	if err := api.Init(); err != nil {
		t.Fatal(err)
	}
	e := &env{API: api, options: o}
	t.Run("misuse of devices", func(t *testing.T) { misuse(t, api, misuseOfDevices) })
	t.Run("misuse without a context", func(t *testing.T) { misuse(t, api, withoutContext) })
	t.Run("facts of devices", e.facts)
	t.Run("contexts belong to threads", e.contexts)

	var err error
	if e.device, err = api.DeviceGet(0); err != nil {
		t.Fatal(err)
	}
	if e.context, err = api.PrimaryRetain(e.device); err != nil {
		t.Fatal(err)
	}
	e.bound(t, "misuse with a context", func(t *testing.T) { misuse(t, api, withContext) })
	e.bound(t, "memory", e.memory)
	e.bound(t, "copies", e.copies)
	e.bound(t, "rows", e.rows)
	e.bound(t, "host memory", e.host)
	e.bound(t, "streams and events", e.streams)
	e.bound(t, "values in streams", e.values)
	e.bound(t, "virtual memory", e.virtual)
	e.bound(t, "kernels", e.kernels)
	e.bound(t, "graphs", e.graphs)
	e.bound(t, "two processes", func(t *testing.T) { e.processes(t, 1) })
	e.bound(t, "three processes", func(t *testing.T) { e.processes(t, 2) })
	if err := api.PrimaryRelease(e.device); err != nil {
		t.Error(err)
	}
}

// BeforeInit checks the calls before Init, which need no device.
func BeforeInit(t *testing.T, api driver.API) { misuse(t, api, beforeInit) }
