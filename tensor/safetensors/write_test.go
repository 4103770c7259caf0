package safetensors

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
)

func sample() []Tensor {
	return []Tensor{
		{Name: "b", DType: F32, Shape: []int64{2}, Data: []byte{1, 2, 3, 4, 5, 6, 7, 8}},
		{Name: "flag", DType: Bool, Shape: []int64{3}, Data: []byte{1, 0, 1}},
		{Name: "a<\"\u2028é", DType: F32, Data: []byte{9, 9, 9, 9}},
		{Name: "count", DType: I64, Shape: []int64{1}, Data: []byte{1, 0, 0, 0, 0, 0, 0, 0}},
		{Name: "none", DType: BF16, Shape: []int64{0, 7}},
	}
}

func TestWriteThenRead(t *testing.T) {
	meta := map[string]string{"step": "17", "a": "ü"}
	path := filepath.Join(t.TempDir(), "m.safetensors")
	if err := WriteFile(path, sample(), &WriteOptions{Metadata: meta}); err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(path); err != nil || st.Mode() != 0o644 {
		t.Errorf("mode %v, %v, want 0644", st.Mode(), err)
	}
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if !reflect.DeepEqual(f.Metadata(), meta) {
		t.Errorf("Metadata() = %v, want %v", f.Metadata(), meta)
	}
	for _, want := range sample() {
		got, err := f.Lookup(want.Name)
		if err != nil {
			t.Fatal(err)
		}
		if got.DType != want.DType || len(got.Shape) != len(want.Shape) || got.Size != int64(len(want.Data)) {
			t.Errorf("%q is %+v", want.Name, got)
		}
		if got.Offset%got.DType.Size() != 0 {
			t.Errorf("%q lies at %d, not aligned for %s", want.Name, got.Offset, got.DType)
		}
		dst := make([]byte, got.Size)
		if err := f.Read(want.Name, dst); err != nil || !bytes.Equal(dst, want.Data) {
			t.Errorf("%q reads %v, %v", want.Name, dst, err)
		}
	}
}

// from returns a function for Tensor.From that gives b byte by byte and then fails with
// err, if that isn't nil.
func from(b []byte, err error) func(func([]byte) error) error {
	return func(write func([]byte) error) error {
		for i := range b {
			if err := write(b[i : i+1]); err != nil {
				return err
			}
		}
		return err
	}
}

// TestWriteGolden fixes the bytes: the same tensors in any order, from memory or from
// a reader, are the same file.
func TestWriteGolden(t *testing.T) {
	header := `{"__metadata__":{"k":"v"},"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"U8","shape":[2,1],"data_offsets":[4,6]}}`
	header += strings.Repeat(" ", (8-len(header)%8)%8)
	want := append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header...)
	want = append(want, 1, 2, 3, 4, 5, 6)
	w := Tensor{Name: "w", DType: F32, Shape: []int64{1}, Data: []byte{1, 2, 3, 4}}
	a := Tensor{Name: "a", DType: U8, Shape: []int64{2, 1}, From: from([]byte{5, 6}, nil)}
	var buf bytes.Buffer
	if err := Write(&buf, []Tensor{a, w}, &WriteOptions{Metadata: map[string]string{"k": "v"}}); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(buf.Bytes(), want) {
		t.Errorf("wrote\n%q\nwant\n%q", buf.Bytes(), want)
	}
}

func TestWriteNothing(t *testing.T) {
	var buf bytes.Buffer
	if err := Write(&buf, nil, nil); err != nil {
		t.Fatal(err)
	}
	if f, err := open(buf.Bytes()); err != nil || len(f.Tensors()) != 0 || f.Metadata() != nil {
		t.Errorf("an empty file reads as %v, %v", f, err)
	}
}

func TestWriteRefuses(t *testing.T) {
	one := []int64{1}
	for _, c := range []struct {
		name    string
		tensors []Tensor
		opts    *WriteOptions
		want    error
	}{
		{"repeated name", []Tensor{{Name: "a", DType: U8, Shape: one, Data: []byte{1}}, {Name: "a", DType: I8, Shape: one, Data: []byte{1}}}, nil, ErrFormat},
		{"metadata's name", []Tensor{{Name: "__metadata__", DType: U8, Shape: one, Data: []byte{1}}}, nil, ErrFormat},
		{"name not UTF-8", []Tensor{{Name: "\xff", DType: U8, Shape: one, Data: []byte{1}}}, nil, ErrFormat},
		{"metadata not UTF-8", nil, &WriteOptions{Metadata: map[string]string{"k": "\xff"}}, ErrFormat},
		{"unknown dtype", []Tensor{{Name: "a", DType: "F33", Shape: one, Data: []byte{1}}}, nil, ErrFormat},
		{"negative dimension", []Tensor{{Name: "a", DType: U8, Shape: []int64{-1}}}, nil, ErrFormat},
		{"overflow", []Tensor{{Name: "a", DType: F64, Shape: []int64{1 << 62}}}, nil, ErrFormat},
		{"overflow of the sum", []Tensor{{Name: "a", DType: U8, Shape: []int64{1 << 62}}, {Name: "b", DType: U8, Shape: []int64{1 << 62}}}, nil, ErrFormat},
		{"no data", []Tensor{{Name: "a", DType: U8, Shape: one}}, nil, ErrMismatch},
		{"short data", []Tensor{{Name: "a", DType: F32, Shape: one, Data: []byte{1, 2, 3}}}, nil, ErrMismatch},
		{"long data", []Tensor{{Name: "a", DType: U8, Shape: one, Data: []byte{1, 2}}}, nil, ErrMismatch},
		{"short reader", []Tensor{{Name: "a", DType: F32, Shape: one, From: from([]byte("abc"), nil)}}, nil, ErrMismatch},
		{"long reader", []Tensor{{Name: "a", DType: U8, Shape: one, From: from([]byte("ab"), nil)}}, nil, ErrMismatch},
		{"failing reader", []Tensor{{Name: "a", DType: U8, Shape: one, From: from(nil, iotest.ErrTimeout)}}, nil, iotest.ErrTimeout},
		{"reader failing at its end", []Tensor{{Name: "a", DType: U8, Shape: one, From: from([]byte("a"), iotest.ErrTimeout)}}, nil, iotest.ErrTimeout},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "old.safetensors")
			if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
				t.Fatal(err)
			}
			err := WriteFile(path, c.tensors, c.opts)
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), path) {
				t.Errorf("error %v, want %v naming the file", err, c.want)
			}
			if got, err := os.ReadFile(path); err != nil || string(got) != "old" {
				t.Errorf("a failed write left %q, %v, expected the old file", got, err)
			}
			if left, _ := os.ReadDir(dir); len(left) != 1 {
				t.Errorf("a failed write left %d files, expected 1", len(left))
			}
		})
	}
}

func TestWriteFileIntoNoFolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "none", "m.safetensors")
	if err := WriteFile(path, nil, nil); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), path) {
		t.Errorf("%v, want os.ErrNotExist naming the file", err)
	}
}

// TestWritable: Writable reports a path that WriteFile would not replace or cannot reach,
// and leaves no file behind.
func TestWritable(t *testing.T) {
	dir := t.TempDir()
	pipe, link := filepath.Join(dir, "pipe"), filepath.Join(dir, "link")
	if err := errors.Join(syscall.Mkfifo(pipe, 0o600), os.Symlink("/dev/null", link)); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]error{
		filepath.Join(dir, "new"):          nil,
		filepath.Join(dir, "none", "file"): os.ErrNotExist,
		dir:                                ErrFormat,
		pipe:                               ErrFormat,
		link:                               ErrFormat, // a device is not replaced
	} {
		for what, err := range map[string]error{"Writable": Writable(path), "WriteFile": WriteFile(path, nil, nil)} {
			if !errors.Is(err, want) || err != nil && !strings.Contains(err.Error(), path) {
				t.Errorf("%s(%s): %v, want %v", what, path, err, want)
			}
		}
	}
	// The error names the file and the folder, not the temporary file.
	if err := Writable("/proc/file"); err == nil || !strings.Contains(err.Error(), "write /proc/file: making a file in the folder /proc: ") || strings.Contains(err.Error(), ".tmp") {
		t.Errorf("a folder that is there and takes no files: %v", err)
	}
	if _, err := Open(pipe); !errors.Is(err, ErrFormat) {
		t.Errorf("opening a pipe: %v, want ErrFormat", err)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 3 { // pipe, link, and new, which WriteFile made
		t.Errorf("%v, %v: want pipe, link and new", left, err)
	}
}

func TestOpenRefusesFolder(t *testing.T) {
	if _, err := Open(t.TempDir()); !errors.Is(err, ErrFormat) {
		t.Errorf("opening a folder: %v, want ErrFormat", err)
	}
}

// FuzzRead checks that an accepted file is consistent, and that it is accepted again,
// with the same contents, after it was written back.
func FuzzRead(f *testing.F) {
	f.Add(file(handmade, 10))
	for _, c := range bad {
		f.Add(file(c.header, c.data))
	}
	var buf bytes.Buffer
	if err := Write(&buf, sample(), &WriteOptions{Metadata: map[string]string{"a": "b"}}); err != nil {
		f.Fatal(err)
	}
	f.Add(buf.Bytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		in, err := open(b)
		if err != nil {
			if !errors.Is(err, ErrFormat) && !errors.Is(err, ErrTruncated) {
				t.Fatalf("error without a sentinel: %v", err)
			}
			return
		}
		var covered int64
		var back []Tensor
		for _, info := range in.Tensors() {
			data := make([]byte, info.Size)
			if err := in.Read(info.Name, data); err != nil {
				t.Fatalf("accepted, but: %v", err)
			}
			if n, err := info.DType.Bytes(info.Shape); err != nil || n != info.Size {
				t.Fatalf("%+v has %d bytes, %v", info, n, err)
			}
			covered += info.Size
			back = append(back, Tensor{Name: info.Name, DType: info.DType, Shape: info.Shape, Data: data})
		}
		if n := int64(binary.LittleEndian.Uint64(b)); covered+n+8 != int64(len(b)) {
			t.Fatalf("tensors cover %d bytes of %d behind a header of %d", covered, len(b), n)
		}
		var out bytes.Buffer
		if err := Write(&out, back, &WriteOptions{Metadata: in.Metadata()}); err != nil {
			t.Fatalf("writing back: %v", err)
		}
		again, err := open(out.Bytes())
		if err != nil {
			t.Fatalf("written back, but: %v", err)
		}
		if !reflect.DeepEqual(again.Metadata(), in.Metadata()) || len(again.Tensors()) != len(back) {
			t.Fatal("metadata or number of tensors changed on the way")
		}
		for _, want := range back {
			got := make([]byte, len(want.Data))
			if err := again.Read(want.Name, got); err != nil || !bytes.Equal(got, want.Data) {
				t.Fatalf("tensor %q changed on the way: %v", want.Name, err)
			}
		}
	})
}

// BenchmarkOpen1000 parses a header of 1000 tensors.
func BenchmarkOpen1000(b *testing.B) {
	var tensors []Tensor
	for i := range 1000 {
		tensors = append(tensors, Tensor{Name: fmt.Sprintf("model.layers.%d.self_attn.q_proj.weight", i), DType: BF16, Shape: []int64{0, 1024}})
	}
	var buf bytes.Buffer
	if err := Write(&buf, tensors, nil); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(buf.Len()))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := open(buf.Bytes()); err != nil {
			b.Fatal(err)
		}
	}
}
