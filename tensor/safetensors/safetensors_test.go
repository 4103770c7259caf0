package safetensors

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
)

// file returns a header of raw JSON followed by n bytes of data 0, 1, 2 …
func file(header string, n int) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	b = append(b, header...)
	for i := range n {
		b = append(b, byte(i))
	}
	return b
}

func open(b []byte) (*File, error) {
	return NewFile(bytes.NewReader(b), int64(len(b)), "t.safetensors")
}

// handmade is a file as another writer might write it: names unsorted, metadata in the
// middle, an empty tensor and a scalar, padding.
const handmade = `{"w":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},"__metadata__":{"format":"pt","é":"1"},` +
	`"s":{"data_offsets":[8,10],"shape":[],"dtype":"I16"},"none":{"dtype":"F64","shape":[3,0],"data_offsets":[8,8]}}   `

func TestReadHandmade(t *testing.T) {
	b := file(handmade, 10)
	f, err := open(b)
	if err != nil {
		t.Fatal(err)
	}
	base := int64(8 + len(handmade))
	want := []Info{
		{"w", F32, []int64{2, 1}, base, 8},
		{"none", F64, []int64{3, 0}, base + 8, 0},
		{"s", I16, []int64{}, base + 8, 2},
	}
	if got := f.Tensors(); !reflect.DeepEqual(got, want) {
		t.Errorf("Tensors() = %+v\nwant %+v", got, want)
	}
	if got, want := f.Names(), []string{"none", "s", "w"}; !reflect.DeepEqual(got, want) {
		t.Errorf("Names() = %q, want %q", got, want)
	}
	if got, want := f.Metadata(), (map[string]string{"format": "pt", "é": "1"}); !reflect.DeepEqual(got, want) {
		t.Errorf("Metadata() = %v, want %v", got, want)
	}
	dst := make([]byte, 8)
	if err := f.Read("w", dst); err != nil || !bytes.Equal(dst, []byte{0, 1, 2, 3, 4, 5, 6, 7}) {
		t.Errorf("Read(w) = %v, %v", dst, err)
	}
	if err := f.Read("none", nil); err != nil {
		t.Errorf("Read of an empty tensor: %v", err)
	}
	if n := testing.AllocsPerRun(100, func() { _ = f.Read("w", dst) }); n != 0 {
		t.Errorf("Read allocates %v times a call", n)
	}
}

func TestReadWrongUse(t *testing.T) {
	f, err := open(file(handmade, 10))
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Read("w", make([]byte, 7)); !errors.Is(err, ErrMismatch) {
		t.Errorf("Read into 7 bytes: %v, want ErrMismatch", err)
	}
	if err := f.ReadFloat32("s", make([]float32, 1)); !errors.Is(err, ErrMismatch) {
		t.Errorf("ReadFloat32 of I16: %v, want ErrMismatch", err)
	}
	if err := f.ReadFloat32("w", make([]float32, 3)); !errors.Is(err, ErrMismatch) {
		t.Errorf("ReadFloat32 into 3 elements: %v, want ErrMismatch", err)
	}
	for _, err := range []error{f.Read("W", nil), f.ReadFloat32("W", nil), second(f.Lookup("W"))} {
		if !errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), `"W"`) || !strings.Contains(err.Error(), "t.safetensors") {
			t.Errorf("unknown tensor: %v, want ErrNotFound naming it and the file", err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// bad lists the known ways to break a file; the error must contain want.
var bad = []struct {
	name, header string
	data         int
	want         string
}{
	{"not JSON", `hello`, 0, "expected {"},
	{"array", `[]`, 0, "expected {"},
	{"space first", ` {}`, 0, "expected {"},
	{"unclosed", `{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}`, 1, "JSON"},
	{"trailing JSON", `{}{}`, 0, "after the header"},
	{"trailing zero", "{}\x00", 0, "after the header"},
	{"trailing newline", "{}\n", 0, "after the header"},
	{"trailing comma", `{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},}`, 1, "JSON"},
	{"control character", "{\"a\x01\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "JSON"},
	{"invalid UTF-8", "{\"a\xff\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "UTF-8"},
	{"duplicate tensor", `{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}`, 2, `"a" occurs twice`},
	{"duplicate by escape", `{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"\u0061":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}`, 2, `"a" occurs twice`},
	{"duplicate metadata", `{"__metadata__":{},"__metadata__":{}}`, 0, "occurs twice"},
	{"duplicate metadata key", `{"__metadata__":{"k":"1","k":"2"}}`, 0, `"k" occurs twice`},
	{"metadata number", `{"__metadata__":{"k":1}}`, 0, "expected a string"},
	{"metadata list", `{"__metadata__":[]}`, 0, "__metadata__"},
	{"duplicate dtype", `{"a":{"dtype":"U8","dtype":"I8","shape":[1],"data_offsets":[0,1]}}`, 1, `"dtype" occurs twice`},
	{"other case", `{"a":{"DTYPE":"U8","shape":[1],"data_offsets":[0,1]}}`, 1, `"DTYPE"`},
	{"unknown key", `{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"x":1}}`, 1, `"x"`},
	{"no dtype", `{"a":{"shape":[1],"data_offsets":[0,1]}}`, 1, "dtype is missing"},
	{"no shape", `{"a":{"dtype":"U8","data_offsets":[0,1]}}`, 1, "shape is missing"},
	{"no offsets", `{"a":{"dtype":"U8","shape":[1]}}`, 1, "data_offsets is missing"},
	{"null tensor", `{"a":null}`, 0, `tensor "a"`},
	{"unknown dtype", `{"a":{"dtype":"F33","shape":[1],"data_offsets":[0,4]}}`, 4, `"F33"`},
	{"dtype in lower case", `{"a":{"dtype":"f32","shape":[1],"data_offsets":[0,4]}}`, 4, `"f32"`},
	{"dtype number", `{"a":{"dtype":3,"shape":[1],"data_offsets":[0,4]}}`, 4, "dtype"},
	{"shape number", `{"a":{"dtype":"U8","shape":1,"data_offsets":[0,1]}}`, 1, "shape"},
	{"shape of strings", `{"a":{"dtype":"U8","shape":["1"],"data_offsets":[0,1]}}`, 1, "whole number"},
	{"negative dimension", `{"a":{"dtype":"U8","shape":[-1],"data_offsets":[0,1]}}`, 1, "-1"},
	{"two negatives", `{"a":{"dtype":"U8","shape":[-1,-1],"data_offsets":[0,1]}}`, 1, "-1"},
	{"fraction", `{"a":{"dtype":"U8","shape":[1.0],"data_offsets":[0,1]}}`, 1, "1.0"},
	{"exponent", `{"a":{"dtype":"U8","shape":[1e0],"data_offsets":[0,1]}}`, 1, "1e0"},
	{"dimension of 2^63", `{"a":{"dtype":"U8","shape":[9223372036854775808],"data_offsets":[0,1]}}`, 1, "9223372036854775808"},
	{"product overflows to 0", `{"a":{"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0]}}`, 0, "overflow"},
	{"product overflows by width", `{"a":{"dtype":"F64","shape":[2305843009213693952],"data_offsets":[0,0]}}`, 0, "overflow"},
	{"overflow behind a zero", `{"a":{"dtype":"U8","shape":[0,4294967296,4294967296],"data_offsets":[0,0]}}`, 0, "overflow"},
	{"65 dimensions", `{"a":{"dtype":"U8","shape":[1` + strings.Repeat(",1", 64) + `],"data_offsets":[0,1]}}`, 1, "more than 64"},
	{"one offset", `{"a":{"dtype":"U8","shape":[1],"data_offsets":[0]}}`, 1, "data_offsets"},
	{"three offsets", `{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1,1]}}`, 1, "data_offsets"},
	{"negative offset", `{"a":{"dtype":"U8","shape":[1],"data_offsets":[-1,0]}}`, 1, "-1"},
	{"offsets backwards", `{"a":{"dtype":"U8","shape":[1],"data_offsets":[1,0]}}`, 1, "[1 0]"},
	{"past the end", `{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}`, 1, "[0 2]"},
	{"far past the end", `{"a":{"dtype":"U8","shape":[1],"data_offsets":[9223372036854775806,9223372036854775807]}}`, 1, "9223372036854775807"},
	{"size of one byte", `{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,1]}}`, 1, "span 1 byte, expected 8"},
	{"size differs", `{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,7]}}`, 7, "expected 8"},
	{"scalar of no bytes", `{"a":{"dtype":"F32","shape":[],"data_offsets":[0,0]}}`, 0, "expected 4"},
	{"hole in front", `{"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}`, 2, "a hole"},
	{"hole between", `{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"U8","shape":[1],"data_offsets":[2,3]}}`, 3, "a hole"},
	{"overlap", `{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}}`, 3, "an overlap"},
	{"same bytes", `{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}`, 2, "an overlap"},
	{"empty inside another", `{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[0],"data_offsets":[1,1]}}`, 2, "an overlap"},
	{"trailing data", `{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}`, 2, "2 bytes, expected 1"},
	{"data without tensors", `{}`, 1, "1 byte, expected 0"},
}

func TestBadHeaders(t *testing.T) {
	for _, c := range bad {
		t.Run(c.name, func(t *testing.T) {
			_, err := open(file(c.header, c.data))
			if !errors.Is(err, ErrFormat) {
				t.Fatalf("error %v, want ErrFormat", err)
			}
			if !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "t.safetensors") {
				t.Errorf("error %q does not name the file and %q", err, c.want)
			}
		})
	}
}

func TestBadLengths(t *testing.T) {
	good := file(handmade, 10)
	for n := range good {
		_, err := open(good[:n])
		if !errors.Is(err, ErrTruncated) && !errors.Is(err, ErrFormat) {
			t.Fatalf("cut at %d: %v, want ErrTruncated or ErrFormat", n, err)
		}
		if inHeader := n < 8+len(handmade); inHeader != errors.Is(err, ErrTruncated) {
			t.Fatalf("cut at %d: %v", n, err)
		}
	}
	for _, c := range []struct {
		length uint64
		want   error
	}{{MaxHeader + 1, ErrFormat}, {math.MaxUint64, ErrFormat}, {1 << 63, ErrFormat}, {MaxHeader, ErrTruncated}, {0, ErrFormat}} {
		b := append(binary.LittleEndian.AppendUint64(nil, c.length), "{}"...)
		if _, err := open(b); !errors.Is(err, c.want) {
			t.Errorf("header length %d: %v, want %v", c.length, err, c.want)
		}
	}
}

func TestFileShrinksWhileOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.safetensors")
	if err := WriteFile(path, []Tensor{{Name: "x", DType: F32, Shape: []int64{4}, Data: make([]byte, 16)}}, nil); err != nil {
		t.Fatal(err)
	}
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, _ := f.Lookup("x")
	if err := os.Truncate(path, info.Offset+9); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{f.Read("x", make([]byte, 16)), f.ReadFloat32("x", make([]float32, 4))} {
		if !errors.Is(err, ErrTruncated) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), `"x"`) {
			t.Errorf("%v, want ErrTruncated naming file and tensor", err)
		}
	}
}

func TestReadErrorIsKept(t *testing.T) {
	_, err := NewFile(failing{}, 100, "broken")
	if !errors.Is(err, iotest.ErrTimeout) {
		t.Errorf("%v, want the reader's own error", err)
	}
}

type failing struct{}

func (failing) ReadAt([]byte, int64) (int, error) { return 0, iotest.ErrTimeout }

func TestReadFloat32(t *testing.T) {
	le := binary.LittleEndian
	var f32, f16, bf16 []byte
	values := []float32{0, float32(math.Copysign(0, -1)), 1, -2.5, 65504, 0x1p-14, 0x1p-24, -0x1.ff8p-15, float32(math.Inf(1)), float32(math.Inf(-1))}
	halves := []uint16{0, 0x8000, 0x3c00, 0xc100, 0x7bff, 0x0400, 0x0001, 0x83ff, 0x7c00, 0xfc00}
	for i, v := range values {
		f32 = le.AppendUint32(f32, math.Float32bits(v))
		f16 = le.AppendUint16(f16, halves[i])
	}
	wide := []float32{1, -3.140625, 0x1p-130, float32(math.Inf(1))}
	for _, v := range wide {
		bf16 = le.AppendUint16(bf16, uint16(math.Float32bits(v)>>16))
	}
	var buf bytes.Buffer
	n := int64(len(values))
	if err := Write(&buf, []Tensor{{"f32", F32, []int64{n}, f32, nil}, {"f16", F16, []int64{n}, f16, nil}, {"bf16", BF16, []int64{4}, bf16, nil},
		{"nan", F16, nil, []byte{0x01, 0x7e}, nil}}, nil); err != nil {
		t.Fatal(err)
	}
	f, err := open(buf.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]float32{"f32": values, "f16": values, "bf16": wide} {
		got := make([]float32, len(want))
		if err := f.ReadFloat32(name, got); err != nil {
			t.Fatal(err)
		}
		for i := range want {
			if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
				t.Errorf("%s[%d] = %v, want %v", name, i, got[i], want[i])
			}
		}
	}
	nan := make([]float32, 1)
	if err := f.ReadFloat32("nan", nan); err != nil || math.Float32bits(nan[0]) != 0x7fc02000 {
		t.Errorf("F16 NaN reads as %x, %v", math.Float32bits(nan[0]), err)
	}
}

func TestReadFloat32InChunks(t *testing.T) {
	n := chunk/4*2 + 3
	data := make([]byte, 4*n)
	for i := range n {
		binary.LittleEndian.PutUint32(data[4*i:], math.Float32bits(float32(i)))
	}
	var buf bytes.Buffer
	if err := Write(&buf, []Tensor{{Name: "x", DType: F32, Shape: []int64{int64(n)}, Data: data}}, nil); err != nil {
		t.Fatal(err)
	}
	f, err := open(buf.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	got := make([]float32, n)
	if err := f.ReadFloat32("x", got); err != nil {
		t.Fatal(err)
	}
	for i, v := range got {
		if v != float32(i) {
			t.Fatalf("element %d = %v", i, v)
		}
	}
}
