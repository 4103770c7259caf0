package data

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/ringside-go/ringside/shm/testneeds"
)

// idx returns a file with the given dimensions and data.
func idx(data []byte, dims ...uint32) []byte {
	b := []byte{0, 0, 8, byte(len(dims))}
	for _, d := range dims {
		b = binary.BigEndian.AppendUint32(b, d)
	}
	return append(b, data...)
}

func zip(b []byte) []byte {
	var buf bytes.Buffer
	w := gzip.NewWriter(&buf)
	_, _ = w.Write(b) // a bytes.Buffer never fails
	_ = w.Close()
	return buf.Bytes()
}

func TestReadIDX(t *testing.T) {
	large := make([]byte, 3<<20+5)
	for i := range large {
		large[i] = byte(Hash(1, uint64(i)))
	}
	for _, c := range []struct {
		name string
		data []byte
		dims []uint32
	}{
		{"labels", []byte{3, 1, 2}, []uint32{3}},
		{"images", []byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, []uint32{2, 2, 3}},
		{"empty", nil, []uint32{0, 28, 28}},
		{"more than one piece", large, []uint32{uint32(len(large))}},
	} {
		plain := idx(c.data, c.dims...)
		for form, b := range map[string][]byte{"plain": plain, "gzip": zip(plain)} {
			got, err := ReadIDX(iotest.HalfReader(bytes.NewReader(b)), c.name)
			if err != nil {
				t.Errorf("%s, %s: %v", c.name, form, err)
				continue
			}
			if !bytes.Equal(got.Data, c.data) || len(got.Dims) != len(c.dims) {
				t.Errorf("%s, %s: %v with %d bytes", c.name, form, got.Dims, len(got.Data))
			}
			for i, d := range c.dims {
				if got.Dims[i] != int(d) {
					t.Errorf("%s, %s: dimensions %v, want %v", c.name, form, got.Dims, c.dims)
				}
			}
		}
	}
}

var badIDX = []struct {
	name string
	file []byte
	want error
	says string
}{
	{"nothing", nil, ErrTruncated, "magic"},
	{"half a magic", []byte{0, 0, 8}, ErrTruncated, "magic"},
	{"not zero", append([]byte{1}, idx(nil, 0)[1:]...), ErrFormat, "0x01000801"},
	{"int32 elements", append([]byte{0, 0, 0x0c}, idx(nil, 0)[3:]...), ErrFormat, "0x00000c01"},
	{"no dimension", idx(nil), ErrFormat, "0x00000800"},
	{"nine dimensions", idx([]byte{1}, 1, 1, 1, 1, 1, 1, 1, 1, 1), ErrFormat, "0x00000809"},
	{"text", []byte("hello, world"), ErrFormat, "0x68656c6c"},
	{"half a dimension", idx(nil, 1, 1)[:10], ErrTruncated, "dimensions"},
	{"one element short", idx([]byte{1, 2, 3}, 4), ErrTruncated, "3 of 4 elements of [4]"},
	{"no element", idx(nil, 2, 2), ErrTruncated, "0 of 4"},
	{"one element more", idx([]byte{1, 2, 3}, 2), ErrFormat, "after the 2 elements"},
	{"announces 4 GiB", idx([]byte{1}, 1<<32-1), ErrTooLarge, "4294967295"},
	{"announces 2^62", idx([]byte{1}, 1<<31, 1<<31), ErrTooLarge, "dimension 0"},
	{"product overflows to 0", idx(nil, 1<<16, 1<<16, 1<<16, 1<<16), ErrTooLarge, "dimension 1"},
	{"overflow behind a zero", idx(nil, 0, 1<<16, 1<<16), ErrTooLarge, "dimension 2"},
	{"announces 1 GiB, holds a byte", idx([]byte{1}, 1<<30), ErrTruncated, "of 1073741824"},
	{"half a gzip header", zip(idx([]byte{1}, 1))[:5], ErrTruncated, "gzip header"},
	{"bad gzip header", []byte{0x1f, 0x8b, 9, 0, 0, 0, 0, 0, 0, 0, 0}, ErrFormat, "gzip header"},
	{"half a gzip", zip(idx([]byte{1, 2, 3, 4}, 4))[:14], ErrTruncated, ""},
	{"gzip without its end", func() []byte { b := zip(idx([]byte{1}, 1)); return b[:len(b)-3] }(), ErrTruncated, "end"},
	{"gzip with a bad checksum", func() []byte { b := zip(idx([]byte{1}, 1)); b[len(b)-6] ^= 1; return b }(), ErrFormat, "checksum"},
	{"gzip with bad data", func() []byte { b := zip(idx([]byte{1}, 1)); b[10] = 0xff; return b }(), ErrFormat, "flate"},
	{"gzip of one more", zip(idx([]byte{1, 2, 3}, 2)), ErrFormat, "after the"},
}

func TestBadIDX(t *testing.T) {
	for _, c := range badIDX {
		t.Run(c.name, func(t *testing.T) {
			_, err := ReadIDX(bytes.NewReader(c.file), "some/file")
			if !errors.Is(err, c.want) {
				t.Fatalf("error %v, want %v", err, c.want)
			}
			if !strings.Contains(err.Error(), "some/file") || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %q names not the file and %q", err, c.says)
			}
		})
	}
}

func TestIDXKeepsReadError(t *testing.T) {
	b := idx(make([]byte, 100), 100)
	for _, n := range []int{1, 6, 50, len(b)} {
		r := io.MultiReader(bytes.NewReader(b[:n]), iotest.ErrReader(iotest.ErrTimeout))
		if _, err := ReadIDX(r, "f"); !errors.Is(err, iotest.ErrTimeout) {
			t.Errorf("failing after %d bytes: %v, want the reader's own error", n, err)
		}
	}
}

func write(t *testing.T, path string, b []byte) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestLoadImages(t *testing.T) {
	dir := t.TempDir()
	img := write(t, filepath.Join(dir, "img"), idx([]byte{1, 2, 3, 4, 5, 6, 7, 8}, 2, 2, 2))
	lab := write(t, filepath.Join(dir, "lab"), zip(idx([]byte{4, 1}, 2)))
	m, err := LoadImages(img, lab)
	if err != nil {
		t.Fatal(err)
	}
	if m.Count != 2 || m.Rows != 2 || m.Cols != 2 || m.Classes != 5 || !bytes.Equal(m.Labels, []byte{4, 1}) || m.Pixels[7] != 8 {
		t.Errorf("loaded %+v", m)
	}
	three := write(t, filepath.Join(dir, "three"), idx([]byte{4, 1, 0}, 3))
	none := write(t, filepath.Join(dir, "none"), idx(nil, 0, 2, 2))
	for _, c := range []struct {
		img, lab string
		want     error
		says     string
	}{
		{img, three, ErrMismatch, "3 labels, expected 2"},
		{lab, lab, ErrFormat, "[2], expected [images, rows, columns]"},
		{img, img, ErrFormat, "[2 2 2], expected [labels]"},
		{none, lab, ErrFormat, "[0 2 2]"},
		{filepath.Join(dir, "absent"), lab, os.ErrNotExist, "absent"},
		{img, filepath.Join(dir, "absent"), os.ErrNotExist, "absent"},
	} {
		if _, err := LoadImages(c.img, c.lab); !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("LoadImages(%s, %s): %v, want %v saying %q", filepath.Base(c.img), filepath.Base(c.lab), err, c.want, c.says)
		}
	}
}

func TestFindImages(t *testing.T) {
	whole, part := t.TempDir(), t.TempDir()
	write(t, filepath.Join(whole, "train-images-idx3-ubyte"), idx([]byte{1, 2, 3, 4}, 2, 1, 2))
	write(t, filepath.Join(whole, "train-labels-idx1-ubyte.gz"), zip(idx([]byte{0, 1}, 2)))
	write(t, filepath.Join(whole, "t10k-images-idx3-ubyte.gz"), zip(idx([]byte{5, 6}, 1, 1, 2)))
	write(t, filepath.Join(whole, "t10k-labels-idx1-ubyte"), idx([]byte{7}, 1))
	write(t, filepath.Join(part, "train-images-idx3-ubyte"), nil)

	files, err := FindImages(part, whole)
	if err != nil {
		t.Fatal(err)
	}
	train, test, err := files.Load()
	if err != nil {
		t.Fatal(err)
	}
	if train.Count != 2 || test.Count != 1 || train.Classes != 8 || test.Classes != 8 {
		t.Errorf("loaded %+v and %+v", train, test)
	}
	_, err = FindImages(part, filepath.Join(part, "absent"))
	if !errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), part+" has no train-labels-idx1-ubyte") || !strings.Contains(err.Error(), "absent has no train-images") {
		t.Errorf("%v, want ErrNotFound naming what is missing where", err)
	}
	if _, err := FindImages(); !errors.Is(err, ErrNotFound) {
		t.Errorf("no folders: %v, want ErrNotFound", err)
	}

	write(t, filepath.Join(whole, "t10k-images-idx3-ubyte.gz"), zip(idx([]byte{5, 6}, 1, 2, 1)))
	if _, _, err := files.Load(); !errors.Is(err, ErrMismatch) || !strings.Contains(err.Error(), "2x1, expected 1x2") {
		t.Errorf("test images of another size: %v, want ErrMismatch", err)
	}
}

// TestFashionMNIST reads the real set, see [testneeds.Images]. Where it is missing the
// error says how to install it.
func TestFashionMNIST(t *testing.T) {
	empty := t.TempDir()
	files, err := FindFashionMNIST(empty)
	if _, statErr := os.Stat(FashionMNISTDir); statErr != nil {
		if !errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), "apt-get install dataset-fashion-mnist") || !strings.Contains(err.Error(), empty) {
			t.Errorf("%v, want ErrNotFound saying where it looked and what to install", err)
		}
		testneeds.Images.Skipf(t, os.Getenv, "%v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	train, test, err := files.Load()
	if err != nil {
		t.Fatal(err)
	}
	if train.Count != 60000 || test.Count != 10000 || train.Rows != 28 || train.Cols != 28 || train.Classes != 10 {
		t.Errorf("%d and %d images of %dx%d in %d classes", train.Count, test.Count, train.Rows, train.Cols, train.Classes)
	}
	counts := make([]int, 10)
	for _, l := range test.Labels {
		counts[l]++
	}
	if slices.Max(counts) != 1000 || slices.Min(counts) != 1000 {
		t.Errorf("test labels come %v times, expected 1000 each", counts)
	}
}

// FuzzReadIDX checks that an accepted file is consistent and reads the same again.
func FuzzReadIDX(f *testing.F) {
	for _, c := range badIDX {
		f.Add(c.file)
	}
	f.Add(idx([]byte{1, 2, 3, 4, 5, 6}, 1, 2, 3))
	f.Add(zip(idx([]byte{1, 2, 3, 4, 5, 6}, 1, 2, 3)))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := ReadIDX(bytes.NewReader(b), "fuzz")
		if err != nil {
			if !errors.Is(err, ErrFormat) && !errors.Is(err, ErrTruncated) && !errors.Is(err, ErrTooLarge) {
				t.Fatalf("error without a sentinel: %v", err)
			}
			return
		}
		n, dims := 1, []uint32{}
		for _, d := range got.Dims {
			n *= d
			dims = append(dims, uint32(d))
		}
		if n != len(got.Data) {
			t.Fatalf("dimensions %v with %d bytes", got.Dims, len(got.Data))
		}
		again, err := ReadIDX(bytes.NewReader(idx(got.Data, dims...)), "again")
		if err != nil || !bytes.Equal(again.Data, got.Data) || !slices.Equal(again.Dims, got.Dims) {
			t.Fatalf("written back it reads %v", err)
		}
	})
}
