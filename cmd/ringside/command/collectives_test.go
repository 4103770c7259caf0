package command

import (
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ringside-go/ringside/tensor/cluster"
	"github.com/ringside-go/ringside/tensor/cuda/comm"
	"github.com/ringside-go/ringside/tensor/cuda/driver"
	"github.com/ringside-go/ringside/tensor/cuda/driver/dlopen"
	"github.com/ringside-go/ringside/tensor/cuda/fakecuda"
	"github.com/ringside-go/ringside/tensor/device"
)

// TestCollectivesFlag has values of --collectives that are wrong, and workers that are
// given a right one.
func TestCollectivesFlag(t *testing.T) {
	runtimeDir(t)
	for _, c := range []struct{ args, says string }{
		{"up --device cuda --collectives gloo", `--collectives "gloo": expected nccl, or nccl:`},
		{"up --device cuda --collectives nccl:libnccl.so.2", "the absolute path of libnccl.so.2"},
		{"up --collectives nccl", "is about GPUs, and workers use the cores: say --device cuda"},
		{"train --in-process --collectives nccl", "is about GPUs"},
		{"worker --collectives nccl", "is about GPUs, and this worker uses the cores"},
	} {
		var use *usageError
		if _, _, err := execute(t, strings.Fields(c.args)...); !errors.As(err, &use) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, expected a usage error with %q", c.args, err, c.says)
		}
	}
	args, err := devices{kind: device.CUDA}.workerArgs("nccl:/lib/libnccl.so.2")
	if err != nil {
		t.Fatal(err)
	}
	for role, want := range map[cluster.Role]bool{cluster.RoleWorker: true, cluster.RoleDispatcher: false} {
		got := strings.Join(args(cluster.Child{Role: role, Name: "w", Addr: "/a"}), " ")
		if strings.HasSuffix(got, " --collectives nccl:/lib/libnccl.so.2") != want {
			t.Errorf("the arguments of a %s are %s", role, got)
		}
	}
}

// TestDoctorCollectives has doctor name NCCL, or say why it can't be used.
func TestDoctorCollectives(t *testing.T) {
	lib := standIn(t)
	own := filepath.Join(filepath.Dir(lib), fakecuda.Collectives)
	missing := func(string) (comm.Library, error) { return nil, comm.ErrNoLibrary }
	for _, c := range []struct {
		name, value, version string
		open                 func(string) (comm.Library, error)
		says                 string
	}{
		{"there", "nccl:" + own, "", openCollectives, "NCCL 2.21.5 (" + own + ") runs collectives with --collectives nccl"},
		{"none", "", "", missing, "no NCCL for --collectives nccl; ringside up"},
		{"none, and asked for", "nccl:/none.so", "", openCollectives, "no NCCL for --collectives nccl: no library of collectives: no libnccl.so.2 among 1 places: /none.so"},
		{"too old", "nccl:" + own, "21600", openCollectives, "NCCL 2.16.0, expected 2.18 or newer"},
		{"the driver's file", "nccl:" + lib, "", openCollectives, "not a complete NCCL: " + lib + " has no ncclGetVersion"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("FAKENCCL_VERSION", c.version)
			h := &host{root: tree(t, nil), openDriver: func() (driver.API, error) { return dlopen.Open(lib) }, openProducts: openProducts, products: withoutProducts,
				openCollectives: c.open, collectives: c.value}
			if f := h.gpu(context.Background()); f.Status != good || !strings.Contains(f.Found, c.says) {
				t.Errorf("%+v, expected %q", f, c.says)
			}
		})
	}
}

// TestTrainNCCL trains a language model on two GPUs whose collectives the library runs,
// and on three workers of two GPUs, which it refuses.
func TestTrainNCCL(t *testing.T) {
	runtimeDir(t)
	standIn(t)
	args := []string{"--data", shortText(t), "--sample=-1", "--seed", "3", "--loss-every", "1", "--batch", "2", "--steps", "2"}
	want := trained(t, append(args, "--in-process")...)
	near := append(args, "--device", "cuda", "--collectives", "nccl", "--workers")
	got := trainedApart(t, append(near, "2")...)
	sameLosses(t, "by NCCL", got, want)

	out, err := ringside(t, append([]string{"train"}, append(near, "3")...)...).CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || !strings.Contains(string(out), "collectives by NCCL 2.21.5: ") || !strings.Contains(string(out), "one worker a GPU") {
		t.Errorf("three workers on two GPUs: %v\n%s", err, out)
	}
}
