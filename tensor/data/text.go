package data

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/ringside-go/ringside/shm/plain"
)

// Text is a corpus whose tokens are its bytes: a vocabulary of 256.
type Text struct {
	Train []byte   // all but the end
	Held  []byte   // the end, never trained on
	Files []string // files of the corpus, in order
	Left  []string // files of a folder that are left out: no text, or too much of it
}

// TextOptions configure LoadText; nil and the zero value are the defaults.
type TextOptions struct {
	// HeldOut is the share of the corpus that is not trained on, above 0 and below 1. 0
	// means 0.05. It is the end of the corpus: with random places the model would be
	// trained on the surroundings of its test data.
	HeldOut float64

	// MaxBytes bounds the corpus. 0 means 64 MiB. A single larger file is ErrTooLarge. In
	// a folder, files are taken in order until the next one would exceed the bound; files
	// that exceed it alone are left out.
	MaxBytes int64
}

// LoadText loads the file at path, or the regular files of text (valid UTF-8 without a
// zero byte) in the folder at path, joined in byte order of their paths. It leaves out
// hidden files and folders, symbolic links inside, and folders named testdata. It returns
// ErrNotFound if a folder holds no text, and ErrFormat if the corpus is empty.
func LoadText(path string, opts *TextOptions) (*Text, error) {
	o := TextOptions{}
	if opts != nil {
		o = *opts
	}
	o.HeldOut = cmp.Or(o.HeldOut, 0.05)
	if !(o.HeldOut > 0 && o.HeldOut < 1) {
		return nil, fmt.Errorf("%w: held-out share %v, expected above 0 and below 1", ErrFormat, o.HeldOut)
	}
	if o.MaxBytes <= 0 {
		o.MaxBytes = 64 << 20
	}
	root, err := filepath.EvalSymlinks(path) // WalkDir would not enter a link
	if err != nil {
		return nil, fmt.Errorf("data: text at %s: %w", plain.Name(path), plain.Path(err))
	}
	st, err := os.Stat(root)
	if err != nil {
		return nil, plain.Path(err)
	}
	var (
		all   []byte
		files []string
		left  []string
	)
	if st.IsDir() {
		if all, files, left, err = readFolder(root, o.MaxBytes); err != nil {
			return nil, err
		}
		if len(files) == 0 {
			return nil, fmt.Errorf("%w: %s holds no text file of at most %d bytes, %s", ErrNotFound, plain.Name(path), o.MaxBytes, without(root, left))
		}
	} else {
		if all, err = readLimited(root, o.MaxBytes); err != nil {
			return nil, err
		}
		files = []string{path}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%w: %s is empty, expected text", ErrFormat, plain.Name(path))
	}
	cut := max(len(all)-int(float64(len(all))*o.HeldOut), 1)
	return &Text{Train: all[:cut:cut], Held: all[cut:], Files: files, Left: left}, nil
}

// readLimited reads a regular file of at most limit bytes. It counts the bytes that it
// reads, not the size that the file system reports.
func readLimited(path string, limit int64) ([]byte, error) {
	// Without O_NONBLOCK, opening a pipe would wait for a writer.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, plain.Path(err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, fmt.Errorf("%w: %s is no file but a device or a pipe, expected a file or a folder of text", ErrFormat, plain.Name(path))
	}
	if st.Size() > limit {
		return nil, fmt.Errorf("%w: %s is %d bytes, expected at most %d", ErrTooLarge, plain.Name(path), st.Size(), limit)
	}
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(b)) > limit {
		return nil, fmt.Errorf("%w: %s has grown above %d bytes", ErrTooLarge, plain.Name(path), limit)
	}
	return b, nil
}

// without says what is in a folder without text, of whose files some were read.
func without(root string, read []string) string {
	const most = 4
	if len(read) > 0 {
		names := make([]string, 0, most)
		for _, p := range read[:min(len(read), most)] {
			names = append(names, strings.TrimPrefix(p, root+string(filepath.Separator)))
		}
		more := ""
		if n := len(read) - most; n > 0 {
			more = fmt.Sprintf(" and %d more", n)
		}
		return fmt.Sprintf("but others: %q%s", names, more)
	}
	if all, err := os.ReadDir(root); err != nil || len(all) > 0 {
		return "but what is left out: hidden files, links, folders named testdata, or folders without files"
	}
	return "it is empty"
}

func readFolder(root string, limit int64) (all []byte, files, left []string, err error) {
	// WalkDir visits each folder in order. The byte order of whole paths differs from
	// that where a name continues another ("a/b" and "a.go"), so paths are sorted.
	var paths []string
	err = filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if p == root {
			return nil
		}
		hidden := strings.HasPrefix(d.Name(), ".")
		if d.IsDir() && (hidden || d.Name() == "testdata") {
			return fs.SkipDir
		}
		if d.Type().IsRegular() && !hidden {
			paths = append(paths, p)
		}
		return nil
	})
	if err != nil {
		return nil, nil, nil, err
	}
	slices.Sort(paths)
	for i, p := range paths {
		b, err := readLimited(p, limit)
		if err != nil && !errors.Is(err, ErrTooLarge) {
			return nil, nil, nil, err
		}
		if err != nil || !utf8.Valid(b) || bytes.IndexByte(b, 0) >= 0 {
			left = append(left, p)
			continue
		}
		if int64(len(all)+len(b)) > limit {
			return all, files, append(left, paths[i:]...), nil
		}
		all, files = append(all, b...), append(files, p)
	}
	return all, files, left, nil
}

// opticks is the text of "Opticks" by Isaac Newton, 567 KB, a test file of Go's
// compression packages.
const opticks = "src/testdata/Isaac.Newton-Opticks.txt"

// FindText returns the path of a corpus that comes with Go, for LoadText: Newton's
// "Opticks" in the first of roots that has it, else the sources in the first of roots
// that has those. Without roots it searches the result of GoRoots. It returns
// ErrNotFound, with the searched folders.
func FindText(roots ...string) (string, error) {
	if len(roots) == 0 {
		roots = GoRoots()
	}
	for _, r := range roots {
		if st, err := os.Stat(filepath.Join(r, opticks)); err == nil && st.Mode().IsRegular() {
			return filepath.Join(r, opticks), nil
		}
	}
	for _, r := range roots {
		if st, err := os.Stat(filepath.Join(r, "src", "fmt")); err == nil && st.IsDir() {
			return filepath.Join(r, "src"), nil
		}
	}
	return "", fmt.Errorf("%w: neither %s nor the sources of Go below any of %s; name a text file or a folder", ErrNotFound, opticks, strings.Join(roots, ", "))
}

// GoRoots returns the folders where Go may be installed, likely ones first: the output of
// `go env GOROOT`, if a go command answers within five seconds, then the usual places of
// Linux distributions, newest version first by name.
func GoRoots() []string {
	var roots []string
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if out, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output(); err == nil {
		if r := strings.TrimSpace(string(out)); filepath.IsAbs(r) {
			roots = append(roots, r)
		}
	}
	roots = append(roots, "/usr/local/go", "/usr/lib/go")
	for _, pattern := range []string{"/usr/lib/go-*", "/usr/share/go-*", "/usr/lib/golang*"} {
		found, _ := filepath.Glob(pattern) // the only error is a bad pattern
		slices.Reverse(found)
		roots = append(roots, found...)
	}
	return slices.Compact(roots)
}
