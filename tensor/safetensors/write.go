package safetensors

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"unicode/utf8"

	"github.com/ringside-go/ringside/shm/limits"
	"github.com/ringside-go/ringside/shm/plain"
)

// Tensor is one tensor to write. Its bytes, little endian and row-major, are Data, or
// those that From gives its argument, in one call or several. They must be exactly as
// many as dtype and shape have.
type Tensor struct {
	Name  string
	DType DType
	Shape []int64
	Data  []byte
	From  func(write func([]byte) error) error
}

// WriteOptions configure Write; nil and the zero value are the defaults.
type WriteOptions struct {
	// Metadata is the file's own notes. Nil writes none.
	Metadata map[string]string
}

// Write writes a file to w. Equal tensors and metadata give equal bytes. As in the
// reference implementation, tensors are sorted by the width of their elements, wide ones
// first, and then by name. With a header padded to 8 bytes, every tensor is then aligned
// for its type.
//
// It returns ErrFormat for a bad or repeated name, a bad dtype or shape, and ErrMismatch
// for data of the wrong length.
func Write(w io.Writer, tensors []Tensor, opts *WriteOptions) error {
	order, sizes, header, err := layout(tensors, opts)
	if err != nil {
		return err
	}
	bw := bufio.NewWriterSize(w, chunk)
	if _, err := bw.Write(header); err != nil {
		return err
	}
	for k, i := range order {
		t := &tensors[i]
		from := t.From
		if from == nil {
			from = func(write func([]byte) error) error { return write(t.Data) }
		}
		n := int64(0)
		err := from(func(b []byte) error {
			n += int64(len(b))
			_, err := bw.Write(b)
			return err
		})
		if err == nil && n != sizes[k] {
			err = fmt.Errorf("%w: %s of data, expected %d for %s %v", ErrMismatch, plain.Count(n, "byte"), sizes[k], t.DType, t.Shape)
		}
		if err != nil {
			return fmt.Errorf("safetensors: tensor %.200q: %w", t.Name, err)
		}
	}
	return bw.Flush()
}

// WriteFile writes a file at path; see Replace.
func WriteFile(path string, tensors []Tensor, opts *WriteOptions) error {
	_, err := Replace(path, 0o644, func(w io.Writer) error { return Write(w, tensors, opts) })
	return err
}

// Replace gives path the contents that write writes, and the mode, atomically: path
// holds either its old content or all of the new one. It writes a temporary file beside
// it, syncs, renames, and syncs the folder. It removes the temporary file if it fails; if
// the process dies one named ".<name>.tmp<digits>" remains. done reports whether the new
// contents are in place, even if they may not survive a power cut.
func Replace(path string, mode os.FileMode, write func(w io.Writer) error) (done bool, err error) {
	f, err := beside(path)
	if err != nil {
		return false, err
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("safetensors: write %s: %w", plain.Name(path), limits.Written(path, plain.Path(err)))
			f.Close()
			os.Remove(f.Name())
		}
	}()
	if err := write(f); err != nil {
		return false, err
	}
	if err := errors.Join(f.Chmod(mode), f.Sync(), f.Close()); err != nil {
		return false, err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return false, err
	}
	return true, SyncDir(filepath.Dir(path))
}

// Writable reports whether WriteFile can write at path, by creating and removing a
// temporary file. A caller that computes for a long time before it writes calls it first.
func Writable(path string) error {
	f, err := beside(path)
	if err != nil {
		return err
	}
	f.Close()
	return os.Remove(f.Name())
}

// beside creates the temporary file that will replace path. It refuses to replace
// anything but a regular file.
func beside(path string) (*os.File, error) {
	st, err := os.Stat(path)
	if err == nil && !st.Mode().IsRegular() {
		return nil, fmt.Errorf("%w: write %s: it is %s, expected a regular file or none", ErrFormat, plain.Name(path), kind(st.Mode()))
	}
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, "."+filepath.Base(path)+".tmp*")
	// A folder of /proc is there, and takes no files with the same error.
	if _, errDir := os.Stat(dir); err != nil && errors.Is(errDir, fs.ErrNotExist) {
		return nil, fmt.Errorf("safetensors: write %s: the folder %s is not there: %w", plain.Name(path), plain.Name(dir), fs.ErrNotExist)
	}
	if err != nil {
		// The error has the name of the temporary file, which was chosen here.
		if of := (*fs.PathError)(nil); errors.As(err, &of) {
			err = fmt.Errorf("making a file in the folder %s: %w", plain.Name(dir), of.Err)
		}
		return nil, fmt.Errorf("safetensors: write %s: %w", plain.Name(path), limits.Written(path, err))
	}
	return f, nil
}

// SyncDir makes renames in dir durable, as WriteFile does.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// layout checks the tensors and returns their order, their sizes in that order, and the
// header with its length before and spaces after it.
func layout(tensors []Tensor, opts *WriteOptions) (order []int, sizes []int64, header []byte, err error) {
	order = make([]int, len(tensors))
	seen := make(map[string]struct{}, len(tensors))
	for i := range tensors {
		t := &tensors[i]
		if t.Name == metadataKey || !utf8.ValidString(t.Name) {
			return nil, nil, nil, fmt.Errorf("%w: tensor %d is named %.200q, expected valid UTF-8 other than %s", ErrFormat, i, t.Name, metadataKey)
		}
		if _, dup := seen[t.Name]; dup {
			return nil, nil, nil, fmt.Errorf("%w: tensor %.200q occurs twice, expected once", ErrFormat, t.Name)
		}
		seen[t.Name] = struct{}{}
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int {
		a, b := &tensors[i], &tensors[j]
		return cmp.Or(cmp.Compare(b.DType.Size(), a.DType.Size()), cmp.Compare(a.Name, b.Name))
	})
	sizes = make([]int64, len(order))
	h := append(make([]byte, prefix, 256+128*len(order)), '{')
	if opts != nil && opts.Metadata != nil {
		for k, v := range opts.Metadata {
			if !utf8.ValidString(k) || !utf8.ValidString(v) {
				return nil, nil, nil, fmt.Errorf("%w: metadata %.40q: %.40q, expected valid UTF-8", ErrFormat, k, v)
			}
		}
		// encoding/json sorts a map.
		h = appendJSON(append(h, `"`+metadataKey+`":`...), opts.Metadata)
	}
	var end int64
	for k, i := range order {
		t := &tensors[i]
		n, err := t.DType.Bytes(t.Shape)
		if err != nil {
			return nil, nil, nil, fmt.Errorf("tensor %.200q: %w", t.Name, err)
		}
		if n > math.MaxInt64-MaxHeader-prefix-end {
			return nil, nil, nil, fmt.Errorf("%w: tensor %.200q: the file would overflow 63 bits", ErrFormat, t.Name)
		}
		if len(h) > prefix+1 {
			h = append(h, ',')
		}
		shape := t.Shape
		if shape == nil {
			shape = []int64{}
		}
		h = append(appendJSON(h, t.Name), ':')
		h = appendJSON(h, entry{t.DType, shape, [2]int64{end, end + n}})
		sizes[k], end = n, end+n
	}
	h = append(h, '}')
	for len(h)%8 != 0 {
		h = append(h, ' ')
	}
	if n := len(h) - prefix; n > MaxHeader {
		return nil, nil, nil, fmt.Errorf("%w: header of %d tensors takes %d bytes, expected at most %d", ErrFormat, len(tensors), n, MaxHeader)
	}
	binary.LittleEndian.PutUint64(h, uint64(len(h)-prefix))
	return order, sizes, h, nil
}

// entry is a tensor in the header.
type entry struct {
	DType   DType    `json:"dtype"`
	Shape   []int64  `json:"shape"`
	Offsets [2]int64 `json:"data_offsets"`
}

// appendJSON appends the JSON of v, whose type is one of those below, which cannot fail.
func appendJSON(dst []byte, v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return append(dst, b...)
}
