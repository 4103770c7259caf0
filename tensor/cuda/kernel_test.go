package cuda

import (
	"os"
	"strings"
	"testing"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cuda/cudatest"
	"github.com/ringside-go/ringside/tensor/device"
)

// TestMissingKernel checks that a program fails whose step needs a kernel that the
// library does not have, instead of running the step on the host.
func TestMissingKernel(t *testing.T) {
	name := pools[tensor.OpMaxPool2D]
	pools[tensor.OpMaxPool2D] = "missing_f32"
	t.Cleanup(func() { pools[tensor.OpMaxPool2D] = name })
	api, _ := cudatest.Open(t, 0, os.Getenv)
	d, err := Open(api, 0, &Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := tensor.NewSession(device.NewOwner(d), nil)
	defer s.Close()
	x := tensor.Full(s, tensor.F32, 1, 1, 1, 4, 4)
	_, err = tensor.Data[float32](x.MaxPool2D(2, 2, 0))
	if err == nil || !strings.Contains(err.Error(), "module pool has no kernel missing_f32") {
		t.Errorf("a step with a kernel that does not exist: %v", err)
	}
	if n := d.Counters().HostSteps; len(n) > 0 {
		t.Errorf("on the host ran %v", n)
	}
}
