package data

import (
	"bytes"
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
)

// Text is a corpus whose tokens are its bytes: a vocabulary of 256.
type Text struct {
	Train []byte   // all but the end
	Held  []byte   // the end, never trained on
	Files []string // what it was made of, in order
}

// TextOptions changes how a corpus is loaded. Nil is fine.
type TextOptions struct {
	// HeldOut is the share of the corpus kept from training, above 0 and below 1.
	// 0 means 0.05. It is one piece, the end: a random choice of places
	// would let a model see the surroundings of what it is tested on.
	HeldOut float64

	// MaxBytes bounds the corpus. 0 means 64 MiB. A single file above it is
	// ErrTooLarge. Of a folder, files are taken in order until the next would pass
	// the bound; files above it on their own are left out.
	MaxBytes int64
}

// LoadText loads the file at path, or the folder: all regular files below it, by
// path in byte order, that are text (valid UTF-8 without a zero byte), one behind
// the other. Hidden files and folders, symbolic links inside, and folders named testdata
// are left out. It returns ErrNotFound when a folder holds no text, ErrFormat
// when the corpus is empty.
func LoadText(path string, opts *TextOptions) (*Text, error) {
	o := TextOptions{}
	if opts != nil {
		o = *opts
	}
	if o.HeldOut == 0 {
		o.HeldOut = 0.05
	}
	if !(o.HeldOut > 0 && o.HeldOut < 1) {
		return nil, fmt.Errorf("%w: held-out share %v, expected above 0 and below 1", ErrFormat, o.HeldOut)
	}
	if o.MaxBytes <= 0 {
		o.MaxBytes = 64 << 20
	}
	root, err := filepath.EvalSymlinks(path) // WalkDir would not enter a link
	if err != nil {
		return nil, fmt.Errorf("data: text at %s: %w", path, err)
	}
	st, err := os.Stat(root)
	if err != nil {
		return nil, err
	}
	var (
		all   []byte
		files []string
	)
	if st.IsDir() {
		if all, files, err = readFolder(root, o.MaxBytes); err != nil {
			return nil, err
		}
		if len(files) == 0 {
			return nil, fmt.Errorf("%w: %s holds no text file of at most %d bytes", ErrNotFound, path, o.MaxBytes)
		}
	} else {
		if all, err = readLimited(root, o.MaxBytes); err != nil {
			return nil, err
		}
		files = []string{path}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%w: %s is empty, expected text", ErrFormat, path)
	}
	cut := max(len(all)-int(float64(len(all))*o.HeldOut), 1)
	return &Text{Train: all[:cut:cut], Held: all[cut:], Files: files}, nil
}

// readLimited reads a regular file of at most limit bytes. The limit holds for what
// is read, not for what the file system says.
func readLimited(path string, limit int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // of a pipe, Open would wait for who writes
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, fmt.Errorf("%w: %s is no file but a device or a pipe, expected a file or a folder of text", ErrFormat, path)
	}
	if st.Size() > limit {
		return nil, fmt.Errorf("%w: %s is %d bytes, expected at most %d", ErrTooLarge, path, st.Size(), limit)
	}
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(b)) > limit {
		return nil, fmt.Errorf("%w: %s has grown above %d bytes", ErrTooLarge, path, limit)
	}
	return b, nil
}

func readFolder(root string, limit int64) (all []byte, files []string, err error) {
	// WalkDir goes in order within a folder; byte order of whole paths differs from
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
		return nil, nil, err
	}
	slices.Sort(paths)
	for _, p := range paths {
		b, err := readLimited(p, limit)
		if errors.Is(err, ErrTooLarge) {
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		if !utf8.Valid(b) || bytes.IndexByte(b, 0) >= 0 {
			continue
		}
		if int64(len(all)+len(b)) > limit {
			break
		}
		all, files = append(all, b...), append(files, p)
	}
	return all, files, nil
}

// opticks is the text of "Opticks" by Isaac Newton, 567 KB, which comes with
// the sources of Go for the benefit of its compression tests.
const opticks = "src/testdata/Isaac.Newton-Opticks.txt"

// FindText returns the path of a corpus that comes with Go, for LoadText: Newton's
// "Opticks" below the first of roots that has it, else the sources in the first of roots
// that has those. Without roots it searches what GoRoots returns. It returns ErrNotFound,
// naming where it looked.
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

// GoRoots returns the folders where Go may be installed, likely ones first: what
// `go env GOROOT` says, when there is a go command that answers within five seconds,
// then the usual places of Linux distributions, newest version first by name.
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
