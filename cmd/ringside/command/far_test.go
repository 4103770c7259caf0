package command

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

func secretPath(t *testing.T, secret string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte(secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestFar trains over TCP on a worker that joined over TCP, and over shared memory on the
// same worker, and expects the same losses.
func TestFar(t *testing.T) {
	t.Run("plain", func(t *testing.T) { farHosts(t) })
	t.Run("TLS", func(t *testing.T) { farHosts(t, "--tls") })
}

// farHosts has the processes of other hosts started with more flags.
func farHosts(t *testing.T, more ...string) {
	dir := runtimeDir(t)
	secret := secretPath(t, "a secret of some length")
	known := append([]string{"--secret-file", secret}, more...)
	d := start(t, append([]string{"dispatcher", "--listen", filepath.Join(dir, "d"), "--listen-tcp", "127.0.0.1:0"}, known...)...)
	near := d.wait(`^dispatcher at (/.*)`)[1]
	far := d.wait(`^dispatcher at (127\..*)`)[1]
	w := start(t, append([]string{"worker", "--join", far, "--simd", "go"}, known...)...)
	name := w.wait(`^worker (\S+), .* at 127\.`)[1]

	args := []string{"--data", textFile(t), "--steps", "5", "--batch", "2", "--sample=-1", "--seed", "3"}
	one := trained(t, slices.Concat(args, []string{"--connect", far}, known)...)
	two := trained(t, slices.Concat(args, []string{"--connect", near}, more)...)
	for _, o := range []outcome{one, two} {
		if !strings.HasPrefix(o.Engine, "worker "+name) || o.TensorBytes != 0 || o.Steps != 5 {
			t.Errorf("%s, %d bytes of tensors through the dispatcher; want worker %s and none", o.Engine, o.TensorBytes, name)
		}
	}
	if !slices.Equal(one.Losses, two.Losses) {
		t.Errorf("losses %v and %v", one.Losses, two.Losses)
	}

	out, said, err := execute(t, "inspect", "--connect", near)
	pid := strconv.Itoa(w.Process.Pid)
	if err != nil || !strings.Contains(out, "\n"+strconv.Itoa(d.Process.Pid)+" ") || strings.Contains(out, "\n"+pid+" ") {
		t.Errorf("inspect, where %s is of another host as far as anybody knows: %v\n%s", pid, err, out)
	}
	if !strings.Contains(said, "worker "+name+" came over TCP") || !strings.Contains(said, "--pid "+pid) {
		t.Errorf("inspect says of a worker of another host: %s", said)
	}
	if out, _, _ := execute(t, append([]string{"doctor", "--connect", far}, known...)...); !strings.Contains(out, "at "+far+", process ") {
		t.Errorf("doctor does not find the dispatcher at %s:\n%s", far, out)
	}
	if out, _, err := execute(t, append([]string{"doctor", "--connect", far}, more...)...); err == nil || more == nil && (err != errSilent || !strings.Contains(out, "by --secret-file")) || more != nil && !strings.Contains(err.Error()+out, "Secret") || strings.Contains(out, "end that process") {
		t.Errorf("doctor without the secret: %v\n%s", err, out)
	}

	if _, _, err := execute(t, slices.Concat([]string{"train", "--connect", far, "--secret-file", secretPath(t, "another secret of them")}, more, args)...); err == nil || !strings.Contains(err.Error(), "secrets differ") || !strings.Contains(err.Error(), "by --secret-file") {
		t.Errorf("with another secret: %v", err)
	}
	if more != nil {
		if _, _, err := execute(t, append([]string{"train", "--connect", far, "--secret-file", secret}, args...)...); err == nil || !strings.Contains(err.Error(), "start both ends with --tls") {
			t.Errorf("without TLS: %v", err)
		}
	}
	_ = d.Process.Signal(syscall.SIGTERM)
	if err := d.end(); err != nil {
		t.Errorf("dispatcher: %v", err)
	}
	if err := w.end(); err == nil {
		t.Error("a worker whose dispatcher is gone ends without an error")
	}
}

// TestWeakSecret checks that a dispatcher that other hosts reach warns about a secret of
// which it is certain that it can be guessed, and about no other.
func TestWeakSecret(t *testing.T) {
	dir := runtimeDir(t)
	for secret, weak := range map[string]bool{"passwordpassword": true, rand.Text(): false} {
		d := start(t, "dispatcher", "--listen", filepath.Join(dir, "d"), "--listen-tcp", "127.0.0.1:0", "--secret-file", secretPath(t, secret))
		said := d.wait(`^(dispatcher at 127|.*the secret can be guessed by strangers; .*head -c 32 /dev/urandom)`)[1]
		if warned := !strings.HasPrefix(said, "dispatcher"); warned != weak {
			t.Errorf("secret %q: %s", secret, said)
		}
		_ = d.Process.Signal(syscall.SIGTERM)
		if err := d.end(); err != nil {
			t.Error(err)
		}
	}
}

func TestFarMistakes(t *testing.T) {
	dir := runtimeDir(t)
	addr := filepath.Join(dir, "d")
	good := secretPath(t, "a secret of some length")
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"dispatcher", "--listen", addr, "--listen-tcp", "0.0.0.0:0"}, "no Secret"},
		{[]string{"dispatcher", "--listen", addr, "--listen-tcp", "here"}, "host:port"},
		{[]string{"dispatcher", "--listen", addr, "--secret-file", addr + "-none"}, "no such file"},
		{[]string{"dispatcher", "--listen", addr, "--secret-file", secretPath(t, "short")}, "5 bytes, expected 16"},
		{[]string{"up", "--listen", addr, "--listen-tcp", "127.0.0.1:0", "--secret-file", good}, "a port that others can be told"},
		{[]string{"up", "--listen", addr, "--listen-tcp", "127.0.0.1:http", "--secret-file", good}, "host:port"},
		{[]string{"worker", "--join", "somewhere"}, "host:port"},
		{[]string{"worker", "--join", "127.0.0.1:7", "--connect", addr}, "exclude each other"},
		{[]string{"worker", "--join", "127.0.0.1:1", "--secret-file", good}, "start one with: ringside up --listen-tcp 127.0.0.1:1"},
	} {
		if _, _, err := execute(t, c.args...); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v: %v, want an error with %q", c.args, err, c.says)
		}
	}
}
