package command

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ringside-go/ringside/shm/limits/limitstest"
	"github.com/ringside-go/ringside/shm/testneeds"
)

// serviceHost makes namespaces a host that systemd runs on for one user: it has a folder
// /usr/local and runtime folders of its own. Nothing of it is left.
const serviceHost = `
mount -t cgroup2 none /sys/fs/cgroup
mount -t tmpfs tmpfs /usr/local
mount -t tmpfs tmpfs /run
mkdir -p /run/systemd/system /run/user
export XDG_RUNTIME_DIR=/run/user
/lib/systemd/systemd --user --log-target=null &
until [ -S /run/user/systemd/private ]; do sleep 0.1; kill -0 $!; done
`

// TestService runs the commands by which docs/launch.md makes ringside a service of one
// user, with a tarball in the form of a release: it has this test in the place of the
// program. A client then finds the dispatcher.
func TestService(t *testing.T) {
	limitstest.NeedRoot(t, os.Getenv, "a /usr/local of its own")
	for _, name := range []string{"/lib/systemd/systemd", "systemctl", "unshare"} {
		testneeds.Systemd.Program(t, os.Getenv, name)
	}
	unshare := []string{"--mount", "--pid", "--mount-proc", "--cgroup", "--fork", "--kill-child"}
	groups := append(slices.Clone(unshare), "mount", "-t", "cgroup2", "none", "/sys/fs/cgroup")
	if out, err := exec.CommandContext(t.Context(), "unshare", groups...).CombinedOutput(); err != nil {
		testneeds.Root.Skipf(t, os.Getenv, "namespaces with control groups of their own can't be made: %v: %s", err, out)
	}
	var commands string
	for _, l := range pageLines(t, "docs/launch.md") {
		if elsewhere[elsewhereOf(l.text)] == "TestService" {
			commands += l.text + "\n"
		}
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	release := filepath.Join(dir, "ringside-VERSION-linux-amd64")
	const unit = "share/systemd/user/ringside.service"
	for name, text := range map[string]string{
		"bin/ringside": fmt.Sprintf("#!/bin/sh\nexec '%s' \"$@\"\n", exe),
		unit:           readText(t, filepath.Join(root, "cmd/ringside/ringside.service")),
	} {
		file := filepath.Join(release, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	script := "tar -czf " + release + ".tar.gz " + filepath.Base(release) + serviceHost + commands +
		"until ringside top --once 2>/dev/null; do sleep 0.1; systemctl --user is-active --quiet ringside; done\nsystemctl --user stop ringside\nsystemctl --user is-failed ringside || true\n"
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "unshare", append(unshare, "sh", "-ec", script)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "HOME="+dir, "PATH=/usr/local/bin:"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "dispatcher") || !strings.HasSuffix(string(out), "inactive\n") {
		t.Errorf("%v\n%s%s", err, commands, out)
	}
}
