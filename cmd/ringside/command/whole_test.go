package command

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestWriteWholeKeeps has a file that is written keep its kind, its names and its mode,
// and leaves nothing else in its folder.
func TestWriteWholeKeeps(t *testing.T) {
	const text = "new"
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	was := unix.Umask(0o027)
	t.Cleanup(func() { unix.Umask(was) })
	for _, name := range []string{"plain", "target", "one"} {
		if err := os.WriteFile(in(name), []byte("older text"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(in("plain"), 0o604); err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{"link": "target", "dangling": "made"} {
		if err := os.Symlink(to, in(link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Link(in("one"), in("two")); err != nil {
		t.Fatal(err)
	}
	out, err := os.Create(in("out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	// /dev/stdout is such a link.
	if err := os.Symlink(fmt.Sprint("/proc/self/fd/", out.Fd()), in("stdout")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path, read string
		kind, mode fs.FileMode // of path, of what is read
	}{
		{"plain", "plain", 0, 0o604},
		{"new", "new", 0, 0o640},
		{"link", "target", fs.ModeSymlink, 0o600},
		{"dangling", "made", fs.ModeSymlink, 0o640},
		{"one", "two", 0, 0o600},
		{"stdout", "out", fs.ModeSymlink, 0o640},
	} {
		if err := writeWhole(in(c.path), func(w io.Writer) error {
			_, err := io.WriteString(w, text)
			return err
		}); err != nil {
			t.Errorf("%s: %v", c.path, err)
		}
		if got, err := os.ReadFile(in(c.read)); string(got) != text || err != nil {
			t.Errorf("%s: %s holds %q, %v", c.path, c.read, got, err)
		}
		if st, err := os.Lstat(in(c.path)); err != nil || st.Mode().Type() != c.kind {
			t.Errorf("%s: %v, %v, expected the type %v", c.path, st, err, c.kind)
		}
		if st, err := os.Stat(in(c.read)); err != nil || st.Mode().Perm() != c.mode {
			t.Errorf("%s: %v, %v, expected the mode %v", c.path, st, err, c.mode)
		}
	}
	if all, err := os.ReadDir(dir); err != nil || len(all) != 10 {
		t.Errorf("%v, %v, expected 10 files", all, err)
	}
}

// TestNotReplaceable has files written to as they are where a new one could not take
// their place, or would belong to another.
func TestNotReplaceable(t *testing.T) {
	dir := tmpfs(t, "1m", 0)
	mounted, other := filepath.Join(dir, "mounted"), filepath.Join(dir, "other")
	for _, path := range []string{mounted, other} {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if mode, ok := replaceable(path); mode != 0o600 || !ok {
			t.Errorf("%s: %v, %v, expected that it can be replaced", path, mode, ok)
		}
	}
	if err := unix.Mount(mounted, mounted, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(mounted, 0); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chown(other, 7, 7); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{mounted, other} {
		if _, ok := replaceable(path); ok {
			t.Errorf("%s can be replaced", path)
		}
		if err := writeJSON(path, 1); err != nil {
			t.Error(err)
		}
	}
}
