package command

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/ringside-go/ringside/shm/limits"
	"github.com/ringside-go/ringside/shm/limits/limitstest"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster/client"
	"github.com/ringside-go/ringside/tensor/cluster/metrics"
)

// upIn starts a cluster of one worker in a control group.
func upIn(t *testing.T, group string) *command {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return startCmd(t, exec.Command("sh", "-c", `echo $$ > "$0"/cgroup.procs && exec "$@"`, group, exe, "up", "-n", "1"))
}

// TestUpInAContainer runs a cluster in a group of 300 MB. A tensor of 600 MB is an error
// that says so; nothing is killed, and the next program runs.
func TestUpInAContainer(t *testing.T) {
	runtimeDir(t)
	up := upIn(t, limitstest.MemoryGroup(t, os.Getenv, 300e6))
	up.wait(`^worker w0: process \d+`)
	addr := up.wait(`^ready at (\S+);`)[1]
	before, err := client.Status(t.Context(), nil, addr)
	if err != nil {
		t.Fatal(err)
	}
	for try := range 2 {
		s, err := client.Open(t.Context(), &client.Options{Addr: addr})
		if err != nil {
			t.Fatal(err)
		}
		const want = "MiB free, by the cgroup /ringside-test-"
		for _, rows := range []int{150e3, 20e3} { // one large tensor; some of 80 MB
			var held []*tensor.Tensor
			for err = nil; err == nil && len(held) < 10; {
				held = append(held, tensor.Rand(s, tensor.F32, rows, 1000))
				_, err = held[len(held)-1].Sum().Item()
			}
			if !errors.Is(err, tensor.ErrNoSpace) || !strings.Contains(err.Error(), want) {
				t.Errorf("try %d: %d tensors of %d rows: %v, expected %q", try, len(held), rows, err, want)
			}
			for _, h := range held {
				h.Free()
			}
			s.ClearErr()
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if s, err = client.Open(t.Context(), &client.Options{Addr: addr}); err != nil {
			t.Fatal(err)
		}
		if n, err := tensor.Ones(s, tensor.F32, 1e6).Sum().Item(); n != 1e6 || err != nil {
			t.Errorf("try %d: the next program gave %v, %v", try, n, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	sameProcesses(t, addr, before)
	_ = up.Process.Signal(os.Interrupt)
	up.wait("^ended$")
	if err := up.end(); err != nil {
		t.Errorf("up: %v", err)
	}
}

// TestUpWithAQuota wants a worker with as many threads as cores' worth of time that the
// control group allows, which the name of its device says if there are several.
func TestUpWithAQuota(t *testing.T) {
	cores := limits.Machine{}.Cores().N
	names := map[int]string{1: ""}
	if cores > 1 {
		names[cores] = fmt.Sprintf(" %d threads", cores)
	}
	for quota, want := range names {
		t.Run(fmt.Sprintf("%d cores", quota), func(t *testing.T) {
			runtimeDir(t)
			up := upIn(t, limitstest.CoreGroup(t, os.Getenv, quota))
			addr := up.wait(`^ready at (\S+);`)[1]
			status, err := client.Status(t.Context(), nil, addr)
			if err != nil {
				t.Fatal(err)
			}
			if name := metrics.DeviceOf(status, "w0"); !strings.HasPrefix(name, "cpu ") || threads.FindString(name) != want {
				t.Errorf("the worker computes on %q, expected %q behind the instruction set", name, want)
			}
			_ = up.Process.Signal(os.Interrupt)
			if err := up.end(); err != nil {
				t.Errorf("up: %v", err)
			}
		})
	}
}

// threads is the part of a device's name that says how many it has.
var threads = regexp.MustCompile(` \d+ threads$`)
