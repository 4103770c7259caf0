package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster/client"
	"github.com/ringside-go/ringside/tensor/cluster/metrics"
	"github.com/ringside-go/ringside/tensor/cuda/fakecuda"
	"github.com/ringside-go/ringside/tensor/device"
)

// TestUpOnGPUs has a dispatcher and two workers on two GPUs, each a process over the
// stand-in, and a client without one: results come as from cores, a program that needs
// more memory than the GPU has fails alone, a quota counts the GPU's bytes, and a killed
// worker is named. In the end nothing of the GPUs is in use.
func TestUpOnGPUs(t *testing.T) {
	runtimeDir(t)
	standIn(t)
	counters := filepath.Join(t.TempDir(), "counters")
	t.Setenv("FAKECUDA_COUNTERS", counters)
	t.Setenv("FAKECUDA_MEMORY_MIB", "768")
	args := []string{"up", "--device", "cuda", "--session-mib", "700"}
	shm := ownShm(t)
	if shm != "" {
		args = append(args, "--shm", shm)
	}
	up := start(t, args...)
	pids := map[string]int{}
	for _, w := range []string{"w0", "w1"} {
		var err error
		if pids[w], err = strconv.Atoi(up.wait(`^worker ` + w + `: process (\d+), cuda:` + w[1:] + `$`)[1]); err != nil {
			t.Fatal(err)
		}
	}
	addr := up.wait(`^ready at (\S+);`)[1]
	dial := func(o *client.Options) *tensor.Session {
		t.Helper()
		e, err := client.Dial(t.Context(), addr, o)
		if err != nil {
			t.Fatal(err)
		}
		return tensor.NewSession(e, nil)
	}
	squares := func(s *tensor.Session) error {
		got, err := tensor.Data[float32](tensor.From(s, []float32{1, 2, 3}).Square())
		if err == nil && !slices.Equal(got, []float32{1, 4, 9}) {
			t.Errorf("the squares of 1, 2 and 3 are %v", got)
		}
		return err
	}
	s := dial(&client.Options{Kind: device.CUDA})
	if err := squares(s); err != nil {
		t.Fatal(err)
	}
	kept := tensor.Full(s, tensor.F32, 1, 1<<20)
	if _, err := kept.Sum().Item(); err != nil {
		t.Fatal(err)
	}
	for i, w := range topOfTwo(t) {
		if w.GPU.Opens != 0 { // how much else depends on the moment
			t.Errorf("top says that %+v opened memory of others", w)
		}
		if used := w.Name == nameOf(s); !strings.HasPrefix(w.Device, fmt.Sprintf("cuda%d stand-in sm_", i)) || w.DeviceBytes != 768<<20 || (w.DeviceUsed >= 4<<20) != used {
			t.Errorf("top says %+v, expected the device and its memory", w)
		}
	}
	out, _, err := execute(t, "inspect")
	if want := fmt.Sprintf("worker w1, process %d, on cuda1 stand-in sm_", pids["w1"]); err != nil || !strings.Contains(out, want) || !strings.Contains(out, "of 768 MiB used by values\n") {
		t.Errorf("inspect: %v, expected %q in\n%s", err, want, out)
	}
	if _, err := tensor.Full(s, tensor.F32, 1, 1<<28).Sum().Item(); !errors.Is(err, tensor.ErrNoSpace) || !strings.Contains(err.Error(), "quota") {
		t.Errorf("1 GiB in a session of 700 MiB: %v, expected %v of the quota", err, tensor.ErrNoSpace)
	}
	_ = s.ClearErr()
	if err := squares(s); err != nil {
		t.Errorf("after that: %v", err)
	}
	victim := nameOf(s)
	if err := syscall.Kill(pids[victim], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	up.wait("process of the cluster died.*" + victim)
	err = squares(s)
	if says := fmt.Sprintf("%q (pid %d)", victim, pids[victim]); !errors.Is(err, client.ErrLost) || !strings.Contains(err.Error(), says) {
		t.Errorf("%s was killed: %v, expected an error with %s", victim, err, says)
	}
	s.Close()
	both := dial(&client.Options{Kind: device.CUDA})
	if err := squares(both); err != nil {
		t.Errorf("another session: %v", err)
	}
	both.Close()
	if err := up.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	up.wait("^ended$")
	if err := up.end(); err != nil {
		t.Errorf("up: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), notice)
	defer cancel()
	drained(t, ctx, shm)
	if left, err := fakecuda.ReadCounters(counters); err != nil || left != (fakecuda.Counters{}) {
		t.Errorf("left in the end: %+v, %v", left, err)
	}
}

// topOfTwo returns what top says of two workers, as soon as both have answered in time
// and it knows what their GPUs did.
func topOfTwo(t *testing.T) []metrics.Worker {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), notice)
	defer cancel()
	for {
		out, _, err := execute(t, "top", "--once", "--json", "--interval", "10ms")
		var r metrics.Report
		if e := json.Unmarshal([]byte(out), &r); err != nil || e != nil {
			t.Fatalf("top: %v, %v in %s", err, e, out)
		}
		if len(r.Workers) == 2 && r.Workers[0].GPU != nil && r.Workers[1].GPU != nil {
			return r.Workers
		}
		if ctx.Err() != nil {
			t.Fatalf("top says nothing of two GPUs: %s", out)
		}
	}
}

// nameOf returns which of two workers a session is on.
func nameOf(s *tensor.Session) string {
	if strings.Contains(s.Engine().Name(), "w1") {
		return "w1"
	}
	return "w0"
}

// TestUpOutOfDeviceMemory has a GPU with less memory than a program needs.
func TestUpOutOfDeviceMemory(t *testing.T) {
	runtimeDir(t)
	standIn(t)
	t.Setenv("FAKECUDA_MEMORY_MIB", "300")
	up := start(t, "up", "--device", "cuda:1")
	up.wait(`^worker w0: process \d+, cuda:1$`)
	e, err := client.Dial(t.Context(), up.wait(`^ready at (\S+);`)[1], nil)
	if err != nil {
		t.Fatal(err)
	}
	s := tensor.NewSession(e, nil)
	if _, err := tensor.Full(s, tensor.F32, 1, 1<<27).AddS(1).Sum().Item(); !errors.Is(err, tensor.ErrNoSpace) {
		t.Errorf("512 MiB on a GPU of 300: %v, expected %v", err, tensor.ErrNoSpace)
	}
	_ = s.ClearErr()
	if v, err := tensor.From(s, []float32{1, 2}).Sum().Item(); err != nil || v != 3 {
		t.Errorf("after that 1 and 2 are %v, %v", v, err)
	}
	s.Close()
	_ = up.Process.Signal(os.Interrupt)
	if err := up.end(); err != nil {
		t.Error(err)
	}
}
