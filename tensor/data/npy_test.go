package data

import (
	"bytes"
	"errors"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// npyOf returns a file of version 1 with the description and data.
func npyOf(head string, data ...byte) []byte {
	head += "\n"
	return append(append([]byte(npyMagic+"\x01\x00"), byte(len(head)), byte(len(head)>>8)), append([]byte(head), data...)...)
}

func TestReadNPY(t *testing.T) {
	// numpy.save of numpy.array([[1, -2, 3]], '<i2')
	saved := "\x93NUMPY\x01\x00v\x00{'descr': '<i2', 'fortran_order': False, 'shape': (1, 3), }" + strings.Repeat(" ", 58) + "\n\x01\x00\xfe\xff\x03\x00"
	a, err := ReadNPY(strings.NewReader(saved), "a.npy")
	if err != nil || a.Type != "<i2" || !slices.Equal(a.Dims, []int{1, 3}) {
		t.Fatalf("%+v, %v", a, err)
	}
	if x, err := Numbers[float32](a); err != nil || !slices.Equal(x, []float32{1, -2, 3}) {
		t.Errorf("%v, %v", x, err)
	}
	if x, err := Numbers[int64](a); err != nil || !slices.Equal(x, []int64{1, -2, 3}) {
		t.Errorf("%v, %v", x, err)
	}
	second := []byte(saved)
	second = append([]byte(npyMagic+"\x02\x00"), append([]byte{0x76, 0, 0, 0}, second[10:]...)...)
	if a, err := ReadNPYFile(write(t, filepath.Join(t.TempDir(), "a.npy"), second)); err != nil || len(a.Data) != 6 {
		t.Errorf("version 2: %+v, %v", a, err)
	}
	for _, c := range []struct {
		head string
		data int
		want error
		says string
	}{
		{"{'descr': '<f4', 'fortran_order': False, 'shape': (), }", 4, nil, ""},
		{"{'descr': '<f4', 'fortran_order': False, 'shape': (0, 5), }", 0, nil, ""},
		{"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", 7, ErrTruncated, "its 8 bytes of <f4 [2]"},
		{"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", 9, ErrFormat, "bytes after the 8"},
		{"{'descr': '>f4', 'fortran_order': False, 'shape': (2,), }", 8, ErrFormat, "astype"},
		{"{'descr': '<f4', 'fortran_order': True, 'shape': (2, 2), }", 16, ErrFormat, "ascontiguousarray"},
		{"{'descr': '|O', 'fortran_order': False, 'shape': (2,), }", 8, ErrFormat, `"|O"`},
		{"{'descr': '<f4', 'fortran_order': False, 'shape': (2147483647, 2147483647), }", 8, ErrTooLarge, "2147483647"},
		{"{'descr': '<f4', 'fortran_order': False, 'shape': (0, 2147483647, 2), }", 0, ErrTooLarge, "2147483647"},
		{"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999,), }", 8, ErrFormat, "below 2^31"},
		{"{'descr': '<f4', 'fortran_order': False, 'shape': (" + strings.Repeat("1, ", 33) + "), }", 4, ErrFormat, "at most 32"},
		{"{'shape': (2,)}", 8, ErrFormat, "description"},
	} {
		_, err := ReadNPY(bytes.NewReader(npyOf(c.head, make([]byte, c.data)...)), "a.npy")
		if !errors.Is(err, c.want) || err != nil && (!strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "a.npy")) {
			t.Errorf("%s: %v, expected %v, %q", c.head, err, c.want, c.says)
		}
	}
	for n := range len(saved) - 1 {
		if _, err := ReadNPY(strings.NewReader(saved[:n]), "a.npy"); !errors.Is(err, ErrTruncated) {
			t.Errorf("the first %d bytes: %v", n, err)
		}
	}
	if _, err := ReadNPY(strings.NewReader("\x93NUMPX\x01\x00"), "a.npy"); !errors.Is(err, ErrFormat) {
		t.Errorf("another magic: %v", err)
	}
	if _, err := ReadNPY(strings.NewReader(npyMagic+"\x02\x00\xff\xff\xff\xff"), "a.npy"); !errors.Is(err, ErrTooLarge) {
		t.Errorf("a long description: %v", err)
	}
}

// TestNumbers converts the extremes of every type.
func TestNumbers(t *testing.T) {
	ff := bytes.Repeat([]byte{0xff}, 8)
	for _, c := range []struct {
		a     NPY
		f64   float64
		i32   int32
		fails bool // as int32
	}{
		{NPY{Type: "|b1", Data: []byte{1}}, 1, 1, false},
		{NPY{Type: "|u1", Data: ff[:1]}, 255, 255, false},
		{NPY{Type: "|i1", Data: ff[:1]}, -1, -1, false},
		{NPY{Type: "<u2", Data: ff[:2]}, 65535, 65535, false},
		{NPY{Type: "<u4", Data: ff[:4]}, math.MaxUint32, 0, true},
		{NPY{Type: "<i4", Data: []byte{0, 0, 0, 0x80}}, math.MinInt32, math.MinInt32, false},
		{NPY{Type: "<u8", Data: ff}, math.MaxUint64, 0, true},
		{NPY{Type: "<i8", Data: ff}, -1, -1, false},
		{NPY{Type: "<i8", Data: []byte{0, 0, 0, 0, 1, 0, 0, 0}}, 1 << 32, 0, true},
		{NPY{Type: "<f4", Data: []byte{0, 0, 0xc0, 0x3f}}, 1.5, 0, true},
		{NPY{Type: "<f8", Data: []byte{0, 0, 0, 0, 0, 0, 0xf8, 0x3f}}, 1.5, 0, true},
	} {
		if x, err := Numbers[float64](&c.a); err != nil || len(x) != 1 || x[0] != c.f64 {
			t.Errorf("%s %x: %v, %v, expected %v", c.a.Type, c.a.Data, x, err, c.f64)
		}
		x, err := Numbers[int32](&c.a)
		if c.fails != errors.Is(err, ErrMismatch) || !c.fails && x[0] != c.i32 {
			t.Errorf("%s %x: %v, %v, expected %v", c.a.Type, c.a.Data, x, err, c.i32)
		}
	}
	for _, bad := range []NPY{{Type: "<f4", Data: ff[:3]}, {Type: "x"}} {
		if _, err := Numbers[float32](&bad); !errors.Is(err, ErrMismatch) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

func TestWriteNPY(t *testing.T) {
	for _, dims := range [][]int{{}, {4}, {2, 3}, {0, 2}, {1, 1, 1, 5}} {
		n := 1
		for _, d := range dims {
			n *= d
		}
		x := make([]float64, n)
		for i := range x {
			x[i] = float64(i) - 0.5
		}
		var b bytes.Buffer
		if err := WriteNPY(&b, x, dims...); err != nil {
			t.Fatal(err)
		}
		if at := b.Len() - 8*n; at%64 != 0 {
			t.Errorf("%v: the elements begin at %d, expected a multiple of 64", dims, at)
		}
		a, err := ReadNPY(&b, "b.npy")
		if err != nil || a.Type != "<f8" || !slices.Equal(a.Dims, dims) {
			t.Fatalf("%v: %+v, %v", dims, a, err)
		}
		if got, err := Numbers[float64](a); err != nil || !slices.Equal(got, x) {
			t.Errorf("%v: %v, %v", dims, got, err)
		}
	}
	for _, dims := range [][]int{{2}, {-1, -3}, {math.MaxInt, 2}} {
		if err := WriteNPY(&bytes.Buffer{}, []int32{1, 2, 3}, dims...); !errors.Is(err, ErrMismatch) {
			t.Errorf("%v: %v", dims, err)
		}
	}
}

func FuzzReadNPY(f *testing.F) {
	f.Add(npyOf("{'descr': '<i2', 'fortran_order': False, 'shape': (1, 3), }", 1, 0, 2, 0, 3, 0))
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := ReadNPY(bytes.NewReader(b), "fuzz")
		if err != nil {
			return
		}
		if x, err := Numbers[float32](a); err != nil || len(x)*npySizes[a.Type] != len(a.Data) {
			t.Errorf("%+v: %d numbers, %v", a, len(x), err)
		}
	})
}
