package command

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ringside-go/ringside/shm/testneeds"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster/client"
)

// TestSessionMemory checks that a session over its quota gets an error, goes on, and
// costs other sessions nothing.
func TestSessionMemory(t *testing.T) {
	addr := filepath.Join(runtimeDir(t), "d")
	up := start(t, "up", "-n", "1", "--session-mib", "2", "--memory-mib", "64", "--listen", addr)
	up.wait(`^a session has at most, on each worker: 2 MiB of tensors \(--session-mib\), 512 segments .* 1\.13e\+15 multiply-adds`)
	up.wait("^ready")
	session := func() *tensor.Session {
		e, err := client.Dial(t.Context(), addr, nil)
		if err != nil {
			t.Fatal(err)
		}
		s := tensor.NewSession(e, nil)
		t.Cleanup(func() { s.Close() })
		return s
	}
	greedy, modest := session(), session()
	for range 3 {
		x := tensor.Ones(greedy, tensor.F32, 1<<20) // 4 MiB
		_, err := tensor.Data[float32](x)
		if !errors.Is(err, tensor.ErrNoSpace) || !strings.Contains(err.Error(), "4194304 bytes") || !strings.Contains(err.Error(), "2097152") {
			t.Fatalf("4 MiB in a session of 2: %v", err)
		}
		x.Free()
		_ = greedy.ClearErr()
		for _, s := range []*tensor.Session{greedy, modest} {
			if v, err := tensor.Ones(s, tensor.F32, 100<<10).Sum().Item(); err != nil || v != 100<<10 {
				t.Errorf("after the error: %v %v", v, err)
			}
		}
	}
	_ = up.Process.Signal(os.Interrupt)
	if err := up.end(); err != nil {
		t.Errorf("up: %v", err)
	}
	for _, bad := range []string{"--session-mib=-1", "--memory-mib=9999999999999999"} {
		_, _, err := execute(t, "up", bad)
		var use *usageError
		if !errors.As(err, &use) {
			t.Errorf("up %s: %v", bad, err)
		}
	}
}

// TestShm wants tensors where --shm says, which inspect tells, and the same results.
func TestShm(t *testing.T) {
	places := map[string]string{memfd: "sealed memfd, mapped for writing", "/dev/shm": "/dev/shm/#"}
	var st unix.Statfs_t
	if err := unix.Statfs("/dev/shm", &st); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	} else if err != nil || st.Type != unix.TMPFS_MAGIC {
		testneeds.Root.Logf(t, os.Getenv, "this machine has no tmpfs at /dev/shm")
		delete(places, "/dev/shm")
	}
	for place, says := range places {
		addr := filepath.Join(runtimeDir(t), "d")
		up := start(t, "up", "-n", "1", "--shm", place, "--listen", addr)
		up.wait("^ready")
		e, err := client.Dial(t.Context(), addr, nil)
		if err != nil {
			t.Fatal(err)
		}
		s := tensor.NewSession(e, nil)
		x := tensor.Arange(s, tensor.F32, 0, 1, 10_000)
		got, err := tensor.Data[float32](x.AddS(1))
		if err != nil || len(got) != 10_000 || got[9_999] != 10_000 {
			t.Errorf("--shm %s: %d elements, %v", place, len(got), err)
		}
		out, _, err := execute(t, "inspect", "--connect", addr)
		if err != nil || !strings.Contains(out, says) {
			t.Errorf("--shm %s: inspect says %v, expected %q in it\n%s", place, err, says, out)
		}
		s.Close()
		_ = up.Process.Signal(os.Interrupt)
		if err := up.end(); err != nil {
			t.Errorf("up: %v", err)
		}
	}
}
