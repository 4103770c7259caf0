package command

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ringside-go/ringside/collective/testsize"
	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/net/nettest"
	"github.com/ringside-go/ringside/tensor/cluster"
)

// hostSteps is how many steps are compared.
func hostSteps() string {
	if testsize.Sampled() {
		return "6"
	}
	return "200"
}

// sameCurve compares losses of two trainings whose sums are taken in another order.
func sameCurve(t *testing.T, what string, got, want outcome) {
	t.Helper()
	if len(got.Losses) < 2 || len(got.Losses) != len(want.Losses) {
		t.Fatalf("%s: %d losses, expected %d", what, len(got.Losses), len(want.Losses))
	}
	for i, w := range want.Losses {
		if g := got.Losses[i]; g.Step != w.Step || math.Abs(g.Loss-w.Loss) > 1e-4*math.Abs(w.Loss) {
			t.Errorf("%s: loss %v, expected %v", what, g, w)
		}
	}
}

// TestTrainOnTwoHosts checks that two hosts with TLS train what one worker trains, that
// no byte of a tensor goes through the dispatcher, and that the workers exchanged data.
// Paths are relative to the caller's folder.
func TestTrainOnTwoHosts(t *testing.T) {
	runtimeDir(t)
	text := textFile(t)
	t.Chdir(filepath.Dir(text))
	args := []string{"--data", filepath.Base(text), "--steps", hostSteps(), "--loss-every", "1", "--batch", "4", "--sample=-1", "--seed", "3"}
	out, _, err := execute(t, append([]string{"train", "--json", "--hosts", "2", "--workers", "2", "--tls"}, args...)...)
	nettest.Need(t, os.Getenv, err)
	var two outcome
	if err := json.Unmarshal([]byte(out), &two); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if two.Traffic == nil || two.TensorBytes != 0 || two.Workers != 2 || *two.CollectivesPerStep == 0 || *two.InputBytesPerStep == 0 {
		t.Errorf("%s", out)
	}
	sameCurve(t, "two hosts", two, trained(t, append(args, "--in-process")...))
}

// TestJoinFromAnotherHost runs up on one host, a worker that joins from another, and on
// each of them a client that has both workers together.
func TestJoinFromAnotherHost(t *testing.T) {
	hosts := nettest.ForTest(t, os.Getenv)
	runtimeDir(t)
	secret := secretPath(t, "a secret of some length")
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	two := &twoHosts{hosts: hosts, exe: exe, stderr: t.Output()}
	defer cancel()
	defer two.end()
	far := hosts[0].Addr + ":" + hostsPort
	if err := two.start(0, "other hosts join at "+far, "up", "-n", "1", "--listen-tcp", far, "--secret-file", secret); err != nil {
		t.Fatal(err)
	}
	if err := two.start(1, "worker ", "worker", "--join", far, "--secret-file", secret); err != nil {
		t.Fatal(err)
	}
	args := []string{"--data", textFile(t), "--steps", hostSteps(), "--loss-every", "1", "--batch", "4", "--sample=-1", "--seed", "3"}
	one := trained(t, append(args, "--in-process")...)
	for host := range hosts {
		args := slices.Concat([]string{"train", "--json", "--connect", far, "--secret-file", secret, "--workers", "2"}, args)
		var stdout, stderr bytes.Buffer
		c := two.command(ctx, host, args...)
		c.Stdout, c.Stderr = &stdout, &stderr
		if err := c.Run(); err != nil {
			t.Fatalf("client on %s: %v\n%s", hosts[host].Name, err, stderr.String())
		}
		var o outcome
		if err := json.Unmarshal(stdout.Bytes(), &o); err != nil {
			t.Fatalf("%v: %s", err, stdout.String())
		}
		if o.TensorBytes != 0 || o.Workers != 2 || !strings.Contains(o.Engine, hosts[1].Name+"-") || !strings.Contains(o.Engine, "w0") {
			t.Errorf("client on %s: %s", hosts[host].Name, stdout.String())
		}
		sameCurve(t, fmt.Sprintf("client on %s", hosts[host].Name), o, one)
	}
}

// TestHostPrograms checks that every program of two hosts knows the secret and has TLS.
func TestHostPrograms(t *testing.T) {
	known := append([]string{"--secret-file", "s"}, cluster.TLSArgs(ipc.TLSFiles{On: true, CA: "ca"})...)
	all := hostPrograms(4, "10.0.0.1:7", known)
	if len(all) != 5 {
		t.Fatalf("%d programs, expected 5", len(all))
	}
	for i, p := range all {
		line := strings.Join(p.args, " ")
		if !strings.HasSuffix(line, "--secret-file s --tls --tls-ca ca") || strings.Contains(line, "--join 10.0.0.1:7") != (i > 2) || (p.host == 1) != (i > 2) {
			t.Errorf("host %d: %s", p.host, line)
		}
	}
}

func TestHostsMistakes(t *testing.T) {
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"--hosts", "2"}, "expected 2 hosts and --workers 2, 4"},
		{[]string{"--hosts", "2", "--workers", "3"}, "3 workers"},
		{[]string{"--hosts", "3", "--workers", "6"}, "--hosts 3"},
		{[]string{"--hosts", "2", "--workers", "2", "--connect", "/x"}, "exclude each other"},
	} {
		if _, _, err := execute(t, append([]string{"train"}, c.args...)...); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v: %v, want an error with %q", c.args, err, c.says)
		}
	}
}
