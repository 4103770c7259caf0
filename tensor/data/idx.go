package data

import (
	"bufio"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/ringside-go/ringside/shm/plain"
)

const (
	// maxIDX bounds the size of one IDX file in bytes: 20 times the largest set in common
	// use (60,000 images of 28x28 are 47 MB).
	maxIDX = 1 << 30

	// maxIDXRank bounds the dimensions; the format allows 255 and uses 3.
	maxIDXRank = 8
)

// IDX is an array of unsigned bytes, row-major.
type IDX struct {
	Dims []int
	Data []byte
}

// ReadIDX reads a whole IDX file of unsigned bytes, plain or compressed with gzip, which
// it distinguishes by the first bytes. Errors call the file name.
//
//	| 0 0 | type: 8 is unsigned byte | number of dimensions D |
//	| D sizes, 4 bytes each, big endian                        |
//	| product of the sizes: elements, last dimension fastest   |
//
// It returns ErrFormat, ErrTruncated, ErrTooLarge, or the reader's own error.
//
// Source: the description on http://yann.lecun.com/exdb/mnist/.
func ReadIDX(r io.Reader, name string) (*IDX, error) {
	name = plain.Name(name)
	br := bufio.NewReader(r)
	if sniff, _ := br.Peek(2); len(sniff) == 2 && sniff[0] == 0x1f && sniff[1] == 0x8b {
		zr, err := gzip.NewReader(br)
		if err != nil {
			return nil, readErr(name, "gzip header", err)
		}
		defer zr.Close()
		return readIDX(zr, name)
	}
	return readIDX(br, name)
}

func readIDX(r io.Reader, name string) (*IDX, error) {
	var magic [4]byte
	if _, err := io.ReadFull(r, magic[:]); err != nil {
		return nil, readErr(name, "magic", err)
	}
	rank := int(magic[3])
	if magic[0] != 0 || magic[1] != 0 || magic[2] != 8 || rank == 0 || rank > maxIDXRank {
		return nil, fmt.Errorf("%w: %s: magic 0x%x, expected 0x000008DD with 1 to %d dimensions DD", ErrFormat, name, magic, maxIDXRank)
	}
	sizes := make([]byte, 4*rank)
	if _, err := io.ReadFull(r, sizes); err != nil {
		return nil, readErr(name, "dimensions", err)
	}
	idx := &IDX{Dims: make([]int, rank)}
	// Every dimension is also bounded by itself: a zero does not excuse the others.
	total, nonzero := uint64(1), uint64(1)
	for i := range idx.Dims {
		d := uint64(binary.BigEndian.Uint32(sizes[4*i:]))
		total *= d           // at most nonzero
		nonzero *= max(d, 1) // below 2^30 * 2^32: no overflow
		if nonzero > maxIDX {
			return nil, fmt.Errorf("%w: %s: dimension %d is %d, making %d elements, expected at most %d", ErrTooLarge, name, i, d, nonzero, maxIDX)
		}
		idx.Dims[i] = int(d)
	}
	var data bytes.Buffer // grows with the bytes that were read
	if n, err := io.CopyN(&data, r, int64(total)); err != nil {
		return nil, readErr(name, fmt.Sprintf("%d of %d elements of %v", n, total, idx.Dims), err)
	}
	idx.Data = data.Bytes()
	// The file must end here; with gzip this read also checks the checksum.
	var more [1]byte
	switch n, err := io.ReadFull(r, more[:]); {
	case n != 0:
		return nil, fmt.Errorf("%w: %s: bytes after the %d elements of %v, expected the end", ErrFormat, name, total, idx.Dims)
	case !errors.Is(err, io.EOF):
		return nil, readErr(name, "end", err)
	}
	return idx, nil
}

// readErr returns a reader's error as one of this package's.
func readErr(name, what string, err error) error {
	var corrupt flate.CorruptInputError
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%w: %s: ends in %s", ErrTruncated, name, what)
	case errors.Is(err, gzip.ErrHeader), errors.Is(err, gzip.ErrChecksum), errors.As(err, &corrupt):
		return fmt.Errorf("%w: %s: %s: %v", ErrFormat, name, what, err)
	}
	return fmt.Errorf("data: %s: %s: %w", name, what, err)
}

// ReadIDXFile calls ReadIDX with the file at path.
func ReadIDXFile(path string) (*IDX, error) {
	return fromFile(path, ReadIDX)
}

// fromFile reads the file at path. If there is none, the error names those beside it.
func fromFile[T any](path string, read func(r io.Reader, name string) (T, error)) (x T, err error) {
	f, err := os.Open(path)
	if err != nil {
		return x, beside(path, plain.Path(err))
	}
	defer f.Close()
	return read(f, path)
}

// beside adds to the error of a file that is not there the files of its folder that end
// alike.
func beside(path string, err error) error {
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	folder := filepath.Dir(path)
	entries, none := os.ReadDir(folder)
	if none != nil {
		return fmt.Errorf("%w; nor is there a folder %s", err, plain.Name(folder))
	}
	var names []string
	for _, e := range entries {
		if filepath.Ext(e.Name()) == filepath.Ext(path) && !e.IsDir() {
			names = append(names, e.Name())
		}
	}
	if len(names) == 0 {
		return fmt.Errorf("%w; the folder %s has no file that ends in %q", err, plain.Name(folder), filepath.Ext(path))
	}
	return fmt.Errorf("%w; the folder %s has %s", err, plain.Name(folder), plain.Names(names))
}
