package cpu_test

import (
	"errors"
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

// TestThreadsOption: there is no device with more threads than a machine has cores.
func TestThreadsOption(t *testing.T) {
	for _, n := range []int{-1, cpu.MaxThreads + 1, 1e5} {
		if _, err := cpu.New(&cpu.Options{Threads: n}); !errors.Is(err, cpu.ErrOption) {
			t.Errorf("%d threads: %v, expected %v", n, err, cpu.ErrOption)
		}
	}
}
