package data

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

func TestLoadTextFile(t *testing.T) {
	text := bytes.Repeat([]byte("0123456789"), 20)
	path := write(t, filepath.Join(t.TempDir(), "a.txt"), text)
	for _, c := range []struct {
		opts *TextOptions
		held int
	}{{nil, 10}, {&TextOptions{HeldOut: 0.25}, 50}, {&TextOptions{HeldOut: 0.999999}, 199}, {&TextOptions{HeldOut: 0.001}, 0}} {
		got, err := LoadText(path, c.opts)
		if err != nil {
			t.Fatal(err)
		}
		if len(got.Held) != c.held || !bytes.Equal(append(bytes.Clone(got.Train), got.Held...), text) || !slices.Equal(got.Files, []string{path}) {
			t.Errorf("%+v: %d and %d bytes of %v, want the last %d of %d held out", c.opts, len(got.Train), len(got.Held), got.Files, c.held, len(text))
		}
	}
}

func TestLoadTextFolder(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{
		"b.txt": "BBB", "a.md": "AA", "a/z.txt": "Z", "a/é.txt": "é", "c.bin": "x\x00y", "d.latin1": "caf\xe9",
		".hidden": "no", ".git/config": "no", "testdata/t.txt": "no", "big.txt": strings.Repeat("g", 100), "empty.txt": "",
	} {
		write(t, filepath.Join(dir, name), []byte(content))
	}
	if err := os.Symlink(filepath.Join(dir, "b.txt"), filepath.Join(dir, "a", "link.txt")); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path string
		max  int64
		want string
	}{
		{dir, 0, "AA" + "Z" + "é" + "BBB" + strings.Repeat("g", 100)},
		{link, 0, "AA" + "Z" + "é" + "BBB" + strings.Repeat("g", 100)},
		{dir, 99, "AA" + "Z" + "é" + "BBB"},
		{dir, 7, "AA" + "Z" + "é"},
		{dir, 4, "AA" + "Z"},
	} {
		got, err := LoadText(c.path, &TextOptions{MaxBytes: c.max})
		if err != nil {
			t.Fatal(err)
		}
		if all := string(got.Train) + string(got.Held); all != c.want {
			t.Errorf("at most %d bytes: %q, want %q", c.max, all, c.want)
		}
		if len(got.Files)+len(got.Left) != 8 || !slices.ContainsFunc(got.Left, func(p string) bool { return filepath.Base(p) == "c.bin" }) {
			t.Errorf("at most %d bytes: files %v, left out %v", c.max, got.Files, got.Left)
		}
	}
}

func TestLoadTextRefuses(t *testing.T) {
	dir := t.TempDir()
	empty := write(t, filepath.Join(dir, "empty"), nil)
	ten := write(t, filepath.Join(dir, "ten"), []byte("0123456789"))
	none := filepath.Join(dir, "none")
	write(t, filepath.Join(none, "only.bin"), []byte{0})
	pipe, loop := filepath.Join(dir, "pipe"), filepath.Join(dir, "loop")
	if err := errors.Join(syscall.Mkfifo(pipe, 0o600), os.Symlink(loop, loop)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, path string
		opts       *TextOptions
		want       error
	}{
		{"empty file", empty, nil, ErrFormat},
		{"too large", ten, &TextOptions{MaxBytes: 9}, ErrTooLarge},
		{"folder without text", none, nil, ErrNotFound},
		{"absent", filepath.Join(dir, "absent"), nil, os.ErrNotExist},
		{"device", "/dev/null", nil, ErrFormat},
		{"pipe that nobody writes to", pipe, nil, ErrFormat},
		{"link to itself", loop, nil, nil},
		{"all held out", ten, &TextOptions{HeldOut: 1}, ErrFormat},
		{"negative share", ten, &TextOptions{HeldOut: -0.1}, ErrFormat},
	} {
		_, err := LoadText(c.path, c.opts)
		if err == nil || c.want != nil && !errors.Is(err, c.want) || c.opts == nil && !strings.Contains(err.Error(), c.path) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
}

func TestFindText(t *testing.T) {
	bare, sources, book := t.TempDir(), t.TempDir(), t.TempDir()
	write(t, filepath.Join(sources, "src", "fmt", "print.go"), []byte("package fmt\n"))
	newton := write(t, filepath.Join(book, opticks), []byte("Light and Colours\n"))
	for _, c := range []struct {
		roots []string
		want  string
	}{
		{[]string{bare, sources, book}, newton},
		{[]string{bare, sources}, filepath.Join(sources, "src")},
	} {
		got, err := FindText(c.roots...)
		if err != nil || got != c.want {
			t.Errorf("FindText(%v) = %s, %v, want %s", c.roots, got, err, c.want)
		}
		if _, err := LoadText(got, nil); err != nil {
			t.Errorf("what FindText found does not load: %v", err)
		}
	}
	if _, err := FindText(bare); !errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), bare) {
		t.Errorf("%v, want ErrNotFound naming where it looked", err)
	}
}

// TestFindTextHere: the default search finds a corpus that loads, the sources of the Go
// toolchain that runs this test.
func TestFindTextHere(t *testing.T) {
	roots := GoRoots()
	if len(roots) == 0 {
		t.Fatal("GoRoots found no folder, expected at least the usual ones")
	}
	path, err := FindText()
	if err != nil {
		t.Fatal(err)
	}
	text, err := LoadText(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(text.Train) < 100_000 || len(text.Held) == 0 {
		t.Errorf("%s gives %d and %d bytes, expected a corpus", path, len(text.Train), len(text.Held))
	}
}
