package local_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/local"
	"github.com/ringside-go/ringside/shm/testneeds"
)

func TestDir(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", "/run/user/7")
	if d := local.Dir(); d != "/run/user/7/ringside" {
		t.Errorf("Dir is %s", d)
	}
	for _, none := range []string{"", "run/user/7"} {
		if d := local.DirIn(none); !strings.HasPrefix(d, "/tmp/ringside-") {
			t.Errorf("with runtime directory %q: %s", none, d)
		}
	}
}

func TestPrepareDir(t *testing.T) {
	base := socketDir(t)
	dir := filepath.Join(base, "ringside")
	for range 2 {
		if err := local.PrepareDir(dir); err != nil {
			t.Fatal(err)
		}
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info, err)
	}
	link := filepath.Join(base, "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	open := filepath.Join(base, "open")
	if err := os.Mkdir(open, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(open, 0o777); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(base, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := local.PrepareDir(open); err == nil || !strings.HasSuffix(err.Error(), "expected 0700; use a directory of this user's own, such as "+local.Dir()) {
		t.Errorf("%v, expected a remedy", err)
	}
	t.Setenv("XDG_RUNTIME_DIR", base) // so that dir is the default
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := local.PrepareDir(dir); err == nil || !strings.HasSuffix(err.Error(), "expected 0700; set XDG_RUNTIME_DIR to a directory of this user's own") {
		t.Errorf("of the default: %v, expected a remedy", err)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{link, open, file} {
		if err := local.PrepareDir(bad); !errors.Is(err, local.ErrUnsafeDir) || !strings.Contains(err.Error(), bad) {
			t.Errorf("PrepareDir(%s): %v", bad, err)
		}
		if _, err := local.New().Listen(filepath.Join(bad, "s"), nil); !errors.Is(err, local.ErrUnsafeDir) {
			t.Errorf("Listen in %s: %v", bad, err)
		}
	}
	if err := local.PrepareDir(filepath.Join(base, "no", "such")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("below nothing: %v", err)
	}
	if os.Getuid() != 0 {
		testneeds.Root.Skipf(t, os.Getenv, "a folder of another user's needs root")
	}
	theirs := filepath.Join(base, "theirs")
	if err := os.Mkdir(theirs, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(theirs, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	if err := local.PrepareDir(theirs); !errors.Is(err, local.ErrUnsafeDir) || !strings.Contains(err.Error(), "65534") || !strings.Contains(err.Error(), local.Dir()) {
		t.Errorf("somebody else's: %v", err)
	}
}

// TestPath: what is not a socket is never removed, and what cannot be an address is said.
func TestPath(t *testing.T) {
	dir := socketDir(t)
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := local.New().Listen(file, nil); !errors.Is(err, ipc.ErrAddrInUse) {
		t.Errorf("Listen at a file: %v", err)
	}
	if b, err := os.ReadFile(file); err != nil || string(b) != "precious" {
		t.Errorf("the file is %q, %v", b, err)
	}
	long := filepath.Join(dir, strings.Repeat("x", 100))
	for _, bad := range []string{"", "relative", "host:123", long} {
		if yes := local.New().Reaches(bad); yes != (bad == long) {
			t.Errorf("%q is said to be reachable: %v", bad, yes)
		}
		if _, err := local.New().Listen(bad, nil); err == nil {
			t.Errorf("Listen at %q succeeded", bad)
		}
		if _, err := local.New().Dial(testContext(t), bad, nil); !errors.Is(err, ipc.ErrNoListener) {
			t.Errorf("Dial of %q: %v", bad, err)
		}
	}
}

// TestAdvertise: an address with a host id reaches from here, and not when the id is
// another host's or the directory another one.
func TestAdvertise(t *testing.T) {
	l, path := listen(t, nil)
	addr, err := local.Advertise(path)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(addr, path+"@") || !local.New().Reaches(addr) {
		t.Errorf("%s is not reached", addr)
	}
	c, err := local.New().Dial(testContext(t), addr, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	accept(t, testContext(t), l)
	_, id, _ := strings.Cut(addr, "@")
	last := "0"
	if strings.HasSuffix(id, last) {
		last = "1"
	}
	if other := addr[:len(addr)-1] + last; local.New().Reaches(other) {
		t.Errorf("%s is reached", other)
	}
	if other := filepath.Join(socketDir(t), "s") + "@" + id; local.New().Reaches(other) {
		t.Errorf("%s is reached", other)
	}
	if _, err := local.Advertise("/no/such/directory/s"); err == nil {
		t.Error("a directory that is not there has an id")
	}
}

// TestForeignWaiter: a Waiter that peers cannot ring is an error, not a hang.
func TestForeignWaiter(t *testing.T) {
	_, path := listen(t, nil)
	o := &ipc.Options{Waiter: ipc.NewWaiter()}
	if _, err := local.New().Dial(testContext(t), path, o); !errors.Is(err, ipc.ErrBadOption) {
		t.Errorf("Dial: %v", err)
	}
	if _, err := local.New().Listen(path+"2", o); !errors.Is(err, ipc.ErrBadOption) {
		t.Errorf("Listen: %v", err)
	}
}

// TestNoAllocations: the hot path makes no garbage.
func TestNoAllocations(t *testing.T) {
	ctx := testContext(t) // with a deadline
	l, path := listen(t, nil)
	a, err := local.New().Dial(ctx, path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	b := accept(t, ctx, l)
	if n := testing.AllocsPerRun(500, func() {
		for _, c := range [][2]ipc.Conn{{a, b}, {b, a}} {
			if _, err := c[0].Reserve(ctx, 1, 64); err != nil {
				t.Fatal(err)
			}
			if err := c[0].Commit(); err != nil {
				t.Fatal(err)
			}
			if _, err := c[1].Recv(ctx); err != nil {
				t.Fatal(err)
			}
			c[1].Release()
			if _, ok, err := c[1].TryRecv(); ok || err != nil {
				t.Fatal(ok, err)
			}
		}
	}); n != 0 {
		t.Errorf("a round trip allocates %v times", n)
	}
}
