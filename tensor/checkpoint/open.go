package checkpoint

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/ringside-go/ringside/shm/plain"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/safetensors"
	"github.com/ringside-go/ringside/tensor/shard"
)

// Checkpoint is an open checkpoint. Its files stay readable while other processes save to
// the folder. Its methods must not be called concurrently.
type Checkpoint struct {
	Manifest
	dir   string
	files []*os.File
}

// Open opens the checkpoint in the folder dir and checks all but the tensors' bytes: the
// manifest, and against it the files and their headers. It returns ErrNone if there is no
// checkpoint, ErrFormat, ErrDamaged, or the system's error.
func Open(dir string) (*Checkpoint, error) {
	// a Save may replace manifest and files between reading the one and opening the
	// others
	const tries = 10
	for n := 1; ; n++ {
		c, err := open(dir)
		if n == tries || !errors.Is(err, fs.ErrNotExist) {
			return c, err
		}
	}
}

func open(dir string) (c *Checkpoint, err error) {
	path := filepath.Join(dir, manifestName)
	src, err := readManifest(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s is not there", ErrNone, plain.Name(path))
	}
	if errors.Is(err, syscall.ENOTDIR) {
		return nil, fmt.Errorf("%w: %s is not a folder, expected one with a %s", ErrFormat, plain.Name(dir), manifestName)
	}
	if err != nil {
		return nil, fmt.Errorf("checkpoint: %w", plain.Path(err))
	}
	m, err := parse(src, path)
	if err != nil {
		return nil, err
	}
	c = &Checkpoint{Manifest: *m, dir: dir}
	for i := range m.Files {
		if err := c.openFile(i); err != nil {
			c.Close()
			return nil, err
		}
	}
	return c, nil
}

// readManifest reads a regular file of at most the largest size of a manifest.
func readManifest(path string) ([]byte, error) {
	f, _, err := safetensors.OpenRegular(path)
	if errors.Is(err, safetensors.ErrFormat) {
		return nil, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxManifest+1))
}

// openFile opens a file and compares its header with the manifest.
func (c *Checkpoint) openFile(i int) error {
	path := c.path(i)
	st, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("checkpoint: %w, which %s names", plain.Path(err), manifestName)
	}
	if !st.Mode().IsRegular() {
		return fmt.Errorf("%w: %s is no file: its mode is %v", ErrDamaged, plain.Name(path), st.Mode())
	}
	if want := c.Files[i].Bytes; st.Size() != want {
		return fmt.Errorf("%w: %s has %d bytes, expected %d", ErrDamaged, plain.Name(path), st.Size(), want)
	}
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("checkpoint: %w", plain.Path(err))
	}
	c.files = append(c.files, f)
	in, err := safetensors.NewFile(f, st.Size(), path)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	for k := range c.Tensors {
		t := &c.Tensors[k]
		for j := range t.Slices {
			s := &t.Slices[j]
			if s.File != i {
				continue
			}
			info, err := in.Lookup(t.Name)
			if err != nil {
				return fmt.Errorf("%w: %w", ErrDamaged, err)
			}
			if !slices.Equal(info.Shape, safetensors.Dims(s.Shape)) || info.DType != t.DType || info.Offset != s.Offset {
				return fmt.Errorf("%w: %s: tensor %.200q is %s%v at %d, the manifest says %s%v at %d", ErrDamaged, plain.Name(path), t.Name,
					info.DType, info.Shape, info.Offset, t.DType, s.Shape, s.Offset)
			}
		}
	}
	return nil
}

func (c *Checkpoint) path(file int) string {
	return filepath.Join(c.dir, filepath.FromSlash(c.Files[file].Path))
}

// Dir returns the folder.
func (c *Checkpoint) Dir() string { return c.dir }

// Close closes the files.
func (c *Checkpoint) Close() error {
	var all error
	for _, f := range c.files {
		all = errors.Join(all, f.Close())
	}
	c.files = nil
	return all
}

// Read fills dst with the bytes of t, one of c.Tensors, row-major and little endian; a
// nil dst only checks them. It returns ErrDamaged if the bytes differ from those that
// were written; dst is then undefined.
func (c *Checkpoint) Read(t *Tensor, dst []byte) error {
	if n, err := t.bytes(t.Shape); err != nil || dst != nil && int64(len(dst)) != n {
		return fmt.Errorf("checkpoint: tensor %.200q has %d bytes, read into %d", t.Name, n, len(dst))
	}
	for i := range t.Slices {
		s := &t.Slices[i]
		n, _ := t.bytes(s.Shape)
		sum := sha256.New()
		if err := s.read(c.files[s.File], n, t.Shape, int(t.DType.Size()), dst, sum); err != nil {
			return fmt.Errorf("checkpoint: %s: tensor %.200q: %w", plain.Name(c.path(s.File)), t.Name, err)
		}
		if is := hex.EncodeToString(sum.Sum(nil)); is != strings.ToLower(s.Sum) {
			return fmt.Errorf("%w: %s: tensor %.200q: its %d bytes at %d have sha256 %s, written was %s", ErrDamaged, plain.Name(c.path(s.File)),
				t.Name, n, s.Offset, is, s.Sum)
		}
	}
	return nil
}

// read puts the slice's n bytes into sum and into dst, which is all of the tensor or nil.
func (s *Slice) read(f *os.File, n int64, shape []int, size int, dst []byte, sum hash.Hash) error {
	const piece = 256 << 10 // a piece is still in the cache when it is hashed
	if n == 0 {
		return nil
	}
	src := bufio.NewReaderSize(io.NewSectionReader(f, s.Offset, n), piece)
	if dst == nil {
		if got, err := src.WriteTo(sum); err != nil {
			return err
		} else if got != n {
			return io.ErrUnexpectedEOF
		}
		return nil
	}
	for r := range shard.Spans(size, shape, s.Start, s.Shape) {
		for part := dst[r.Whole : r.Whole+r.Bytes]; len(part) > 0; {
			p := part[:min(len(part), piece)]
			if _, err := io.ReadFull(src, p); err != nil {
				return err
			}
			sum.Write(p)
			part = part[len(p):]
		}
	}
	return nil
}

// Restore gives tensors the values that c has under their names. Each must be there with
// the same dtype and shape, and c must have no others; if not, Restore returns
// ErrMismatch, which names them, before it reads anything. All bytes are read and checked
// before the first tensor changes. Then the tensors change a few at a time, so that their
// session, which must be one, never holds much more than all of them once. If the workers
// run out of memory, or a file changed meanwhile, Restore returns an error with some
// tensors restored and the others as they were.
func (c *Checkpoint) Restore(ctx context.Context, tensors []tensor.Named) error {
	return c.restore(ctx, tensors, false)
}

// RestorePart is Restore of some of the tensors that c has, such as the parameters of a
// model without the state of its optimizer.
func (c *Checkpoint) RestorePart(ctx context.Context, tensors []tensor.Named) error {
	return c.restore(ctx, tensors, true)
}

func (c *Checkpoint) restore(ctx context.Context, tensors []tensor.Named, part bool) error {
	found, err := c.fit(tensors, part)
	if err != nil || len(tensors) == 0 {
		return err
	}
	total := 0
	for i, p := range tensors {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := c.Read(found[i], nil); err != nil {
			return err
		}
		total += p.T.Elems() * p.T.DType().Size()
	}
	few := min(max(total/16, 1<<20), 64<<20) // bytes that exist twice for a moment
	for len(tensors) > 0 {
		n, bytes := 0, 0
		for n < len(tensors) && bytes < few {
			bytes += tensors[n].T.Elems() * tensors[n].T.DType().Size()
			n++
		}
		if err := c.change(ctx, tensors[:n], found[:n]); err != nil {
			return err
		}
		tensors, found = tensors[n:], found[n:]
	}
	return nil
}

// change restores tensors, all or none.
func (c *Checkpoint) change(ctx context.Context, tensors []tensor.Named, found []*Tensor) error {
	s := tensors[0].T.Session()
	fresh := make([]*tensor.Tensor, 0, len(tensors))
	defer func() {
		for _, t := range fresh {
			t.Free()
		}
	}()
	for i := range tensors {
		if err := ctx.Err(); err != nil {
			return err
		}
		p := tensors[i].T
		v, err := tensor.FillLike(p, func(dst []byte) error { return c.Read(found[i], dst) })
		if err != nil {
			return err
		}
		fresh = append(fresh, v)
	}
	if err := s.Sync(); err != nil { // an error shows here if the worker has no room
		return err
	}
	var err error
	s.NoGrad(func() {
		for i, p := range tensors {
			if err = p.T.Assign(fresh[i]); err != nil {
				err = fmt.Errorf("checkpoint: restoring %s: %w", p.Name, err)
				return
			}
		}
	})
	return err
}

// fit returns the tensors in c, or an error that lists the differences. With part c may
// have others as well.
func (c *Checkpoint) fit(tensors []tensor.Named, part bool) ([]*Tensor, error) {
	found := make([]*Tensor, len(tensors))
	used := make(map[string]bool, len(tensors))
	var diff safetensors.Differences
	for i, p := range tensors {
		if err := p.T.Err(); err != nil {
			return nil, fmt.Errorf("checkpoint: restoring %s: %w", p.Name, err)
		}
		t := c.lookup(p.Name)
		if t == nil {
			diff.Missing = append(diff.Missing, p.Name)
			continue
		}
		found[i], used[p.Name] = t, true
		if want := safetensors.TypeOf(p.T.DType()); t.DType != want || !slices.Equal(t.Shape, p.T.Shape()) {
			diff.Wrong = append(diff.Wrong, fmt.Sprintf("%s is %s%v, expected %s%v", p.Name, t.DType, t.Shape, want, []int(p.T.Shape())))
		}
	}
	for i := range c.Tensors {
		if name := c.Tensors[i].Name; !used[name] && !part {
			diff.Unexpected = append(diff.Unexpected, name)
		}
	}
	if text := diff.String(); text != "" {
		return nil, fmt.Errorf("%w: %s: %s", ErrMismatch, plain.Name(c.dir), text)
	}
	return found, nil
}

// lookup finds a tensor by its name.
func (c *Checkpoint) lookup(name string) *Tensor {
	i, ok := slices.BinarySearchFunc(c.Tensors, name, func(t Tensor, name string) int { return strings.Compare(t.Name, name) })
	if !ok {
		return nil
	}
	return &c.Tensors[i]
}
