package safetensors

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"syscall"

	"github.com/ringside-go/ringside/collective/element"
	"github.com/ringside-go/ringside/shm/plain"
)

// File is an open file with a valid header. Its methods may be called concurrently,
// except Close.
type File struct {
	name   string
	r      io.ReaderAt
	closer io.Closer // nil when the caller owns r
	infos  []Info    // by offset
	byName map[string]int
	meta   map[string]string
}

// kind describes a file that is not regular.
func kind(m os.FileMode) string {
	switch {
	case m.IsDir():
		return "a folder"
	case m&os.ModeNamedPipe != 0:
		return "a pipe"
	case m&os.ModeSocket != 0:
		return "a socket"
	}
	return "a device"
}

// OpenRegular opens a regular file and returns its size. It returns ErrFormat for
// anything else, or an error of the system.
func OpenRegular(path string) (f *os.File, size int64, err error) {
	// Without O_NONBLOCK, opening a pipe would wait for a writer.
	if f, err = os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0); err != nil {
		return nil, 0, plain.Path(err)
	}
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = fmt.Errorf("%w: %s is %s, expected a regular file", ErrFormat, plain.Name(path), kind(st.Mode()))
	}
	if err != nil {
		f.Close()
		return nil, 0, err
	}
	return f, st.Size(), nil
}

// Open opens and checks the file at path. It returns ErrFormat, ErrTruncated or an error
// of the system.
func Open(path string) (*File, error) {
	f, size, err := OpenRegular(path)
	if err != nil {
		return nil, err
	}
	file, err := NewFile(f, size, path)
	if err != nil {
		f.Close()
		return nil, err
	}
	file.closer = f
	return file, nil
}

// NewFile reads a file of size bytes through r. Errors call it name. The caller keeps r
// open as long as it uses the File.
func NewFile(r io.ReaderAt, size int64, name string) (*File, error) {
	name = plain.Name(name)
	var head [prefix]byte
	if size < prefix {
		return nil, fmt.Errorf("%w: %s is %s, expected a safetensors file, which has at least %d", ErrTruncated, name, plain.Count(size, "byte"), prefix)
	}
	if err := readAt(r, head[:], 0); err != nil {
		return nil, fmt.Errorf("safetensors: %s: header length: %w", name, err)
	}
	n := binary.LittleEndian.Uint64(head[:])
	if n > MaxHeader {
		return nil, fmt.Errorf("%w: %s is no safetensors file: it begins with %q, expected the length of its header, at most %d", ErrFormat, name, head[:], MaxHeader)
	}
	base := prefix + int64(n)
	if base > size {
		return nil, fmt.Errorf("%w: %s is %d bytes, expected at least %d, where its header ends", ErrTruncated, name, size, base)
	}
	raw := make([]byte, n)
	if err := readAt(r, raw, prefix); err != nil {
		return nil, fmt.Errorf("safetensors: %s: header: %w", name, err)
	}
	infos, meta, err := parseHeader(raw, base, size-base)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	byName := make(map[string]int, len(infos))
	for i := range infos {
		byName[infos[i].Name] = i
	}
	return &File{name: name, r: r, infos: infos, byName: byName, meta: meta}, nil
}

// readAt fills dst. If the file ends inside dst it returns ErrTruncated: the file has
// been shortened since its size was read.
func readAt(r io.ReaderAt, dst []byte, off int64) error {
	n, err := r.ReadAt(dst, off)
	switch {
	case n == len(dst):
		return nil
	case err == nil || errors.Is(err, io.EOF):
		return fmt.Errorf("%w: %s at offset %d, expected %d", ErrTruncated, plain.Count(n, "byte"), off, len(dst))
	}
	return err
}

// Close closes the file if Open opened it.
func (f *File) Close() error {
	if f.closer == nil {
		return nil
	}
	return f.closer.Close()
}

// Name returns the file's name in errors.
func (f *File) Name() string { return f.name }

// Tensors returns the tensors in the order of their data.
func (f *File) Tensors() []Info { return slices.Clone(f.infos) }

// Names returns the names of the tensors, sorted.
func (f *File) Names() []string { return slices.Sorted(maps.Keys(f.byName)) }

// Metadata returns a copy of the file's own notes; nil when it has none.
func (f *File) Metadata() map[string]string { return maps.Clone(f.meta) }

// Lookup returns the tensor called name, or ErrNotFound.
func (f *File) Lookup(name string) (Info, error) {
	i, ok := f.byName[name]
	if !ok {
		return Info{}, fmt.Errorf("%w: %s holds no %.200q among its %d tensors", ErrNotFound, f.name, name, len(f.infos))
	}
	return f.infos[i], nil
}

// Read fills dst, which must have the tensor's length, with its bytes as stored. dst may
// be shared memory. Read allocates nothing unless it fails.
func (f *File) Read(name string, dst []byte) error {
	t, err := f.Lookup(name)
	if err != nil {
		return err
	}
	if int64(len(dst)) != t.Size {
		return fmt.Errorf("%w: %s: tensor %.200q is %s, read into %d", ErrMismatch, f.name, name, plain.Count(t.Size, "byte"), len(dst))
	}
	if err := readAt(f.r, dst, t.Offset); err != nil {
		return fmt.Errorf("safetensors: %s: tensor %.200q: %w", f.name, name, err)
	}
	return nil
}

// ReadFloat32 fills dst with the tensor's values as float32. F32 is copied; F16 and BF16
// are widened, which is exact. Other types, and a dst with another number of elements,
// are ErrMismatch.
func (f *File) ReadFloat32(name string, dst []float32) error {
	t, err := f.Lookup(name)
	if err != nil {
		return err
	}
	if t.DType != F32 && t.DType != F16 && t.DType != BF16 {
		return fmt.Errorf("%w: %s: tensor %.200q is %s, expected F32, F16 or BF16", ErrMismatch, f.name, name, t.DType)
	}
	if int64(len(dst)) != t.Elements() {
		return fmt.Errorf("%w: %s: tensor %.200q has %d elements, read into %d", ErrMismatch, f.name, name, t.Elements(), len(dst))
	}
	width := int(t.DType.Size())
	buf := make([]byte, min(len(dst)*width, chunk))
	for off := t.Offset; len(dst) > 0; {
		n := min(len(dst), len(buf)/width)
		part := buf[:n*width]
		if err := readAt(f.r, part, off); err != nil {
			return fmt.Errorf("safetensors: %s: tensor %.200q: %w", f.name, name, err)
		}
		t.DType.Widen(dst[:n], part)
		dst, off = dst[n:], off+int64(len(part))
	}
	return nil
}

// Widen fills dst with the elements of src, which are F32, F16 or BF16.
func (d DType) Widen(dst []float32, src []byte) {
	le := binary.LittleEndian
	for i := range dst {
		switch d {
		case F32:
			dst[i] = math.Float32frombits(le.Uint32(src[4*i:]))
		case F16:
			dst[i] = element.Float16(le.Uint16(src[2*i:])).Float32()
		case BF16:
			dst[i] = element.BFloat16(le.Uint16(src[2*i:])).Float32()
		}
	}
}

// chunk is the size of the buffer for conversions: large enough to make the cost of a
// system call small, small enough for the L2 cache.
const chunk = 256 << 10
