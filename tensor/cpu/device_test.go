package cpu_test

import (
	"testing"

	"github.com/ringside-go/ringside/tensor/cpu"
	"github.com/ringside-go/ringside/tensor/device"
	"github.com/ringside-go/ringside/tensor/device/devicetest"
)

// TestDevice runs the suite of devices, alone and with threads that share every step.
func TestDevice(t *testing.T) {
	for name, open := range map[string]func() (*cpu.Device, error){
		"one thread": func() (*cpu.Device, error) { return cpu.New(nil) },
		"3 threads":  func() (*cpu.Device, error) { return cpu.NewEager(&cpu.Options{Threads: 3}) },
	} {
		t.Run(name, func(t *testing.T) {
			devicetest.Run(t, func(t *testing.T) device.Device {
				d, err := open()
				if err != nil {
					t.Fatal(err)
				}
				return d
			})
		})
	}
}
