package data

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/ringside-go/ringside/shm/plain"
)

const (
	npyMagic = "\x93NUMPY"

	// maxNPY bounds the bytes of an array, which are held in memory.
	maxNPY = 1 << 31

	// maxNPYHead bounds the description of an array. NumPy writes some hundred bytes.
	maxNPYHead = 1 << 16

	maxNPYRank = 32 // as NumPy has it
)

// npySizes are the bytes of an element of each type that is read.
var npySizes = map[string]int{
	"|b1": 1, "|u1": 1, "|i1": 1, "<u2": 2, "<i2": 2, "<u4": 4, "<i4": 4, "<u8": 8, "<i8": 8, "<f4": 4, "<f8": 8,
}

// NPY is an array of NumPy.
type NPY struct {
	Type string // as NumPy writes it, such as <f4
	Dims []int  // empty for a number
	Data []byte // row-major and little endian
}

// npyHead matches the description that NumPy writes: the literal of a Python dict with
// its keys in this order.
var npyHead = regexp.MustCompile(`^\{'descr': '([^']*)', 'fortran_order': (True|False), 'shape': \(([0-9, ]*)\), \} *\n$`)

// ReadNPY reads an array in NumPy's file format, as numpy.save writes it: booleans,
// integers, float32 and float64, row-major and little endian. Errors call the file name:
// ErrFormat, ErrTruncated, ErrTooLarge, or the reader's own error.
//
//	| \x93NUMPY | version, 2 bytes: 1 to 3, 0                                 |
//	| length of the description, little endian: 2 bytes in version 1, then 4  |
//	| {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), } and spaces  |
//	| elements                                                                |
//
// Source: numpy.lib.format in NumPy's documentation.
func ReadNPY(r io.Reader, name string) (*NPY, error) {
	name = plain.Name(name)
	in := bufio.NewReader(r)
	var begin [len(npyMagic) + 2]byte
	if _, err := io.ReadFull(in, begin[:]); err != nil {
		return nil, readErr(name, "its magic", err)
	}
	version := begin[len(npyMagic)]
	if string(begin[:len(npyMagic)]) != npyMagic || version < 1 || version > 3 || begin[len(npyMagic)+1] != 0 {
		return nil, fmt.Errorf("%w: %s: begins with %q, expected %q and version 1.0 to 3.0", ErrFormat, name, begin[:], npyMagic)
	}
	var length [4]byte
	wide := 4
	if version == 1 {
		wide = 2
	}
	if _, err := io.ReadFull(in, length[:wide]); err != nil {
		return nil, readErr(name, "the length of its description", err)
	}
	n := binary.LittleEndian.Uint32(length[:])
	if n > maxNPYHead {
		return nil, fmt.Errorf("%w: %s: a description of %d bytes, expected at most %d", ErrTooLarge, name, n, maxNPYHead)
	}
	head := make([]byte, n)
	if _, err := io.ReadFull(in, head); err != nil {
		return nil, readErr(name, "its description", err)
	}
	a, total, err := parseNPY(string(head))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	var data bytes.Buffer // grows with the bytes that were read
	if _, err := io.CopyN(&data, in, int64(total)); err != nil {
		return nil, readErr(name, fmt.Sprintf("its %d bytes of %s %v", total, a.Type, a.Dims), err)
	}
	a.Data = data.Bytes()
	if _, err := in.ReadByte(); !errors.Is(err, io.EOF) {
		if err != nil {
			return nil, readErr(name, "its end", err)
		}
		return nil, fmt.Errorf("%w: %s: bytes after the %d of %s %v, expected the end", ErrFormat, name, total, a.Type, a.Dims)
	}
	return a, nil
}

// parseNPY returns the array of a description, without its bytes, and their number.
func parseNPY(head string) (a *NPY, total int, err error) {
	m := npyHead.FindStringSubmatch(head)
	if m == nil {
		return nil, 0, fmt.Errorf("%w: description %.100q, expected {'descr': ..., 'fortran_order': ..., 'shape': ...}", ErrFormat, head)
	}
	a = &NPY{Type: m[1], Dims: []int{}}
	size := npySizes[a.Type]
	if size == 0 {
		return nil, 0, fmt.Errorf("%w: elements of type %.20q, expected one of b1, u1 to u8, i1 to i8, f4, f8, little endian (save a.astype('<f4'))", ErrFormat, a.Type)
	}
	if m[2] == "True" {
		return nil, 0, fmt.Errorf("%w: an array in Fortran's order, expected row-major (save numpy.ascontiguousarray(a))", ErrFormat)
	}
	bytes, empty := uint64(size), false
	for part := range strings.SplitSeq(m[3], ",") {
		if part = strings.TrimSpace(part); part == "" { // behind the comma of (3,)
			continue
		}
		d, err := strconv.ParseUint(part, 10, 31)
		if err != nil || len(a.Dims) == maxNPYRank {
			return nil, 0, fmt.Errorf("%w: shape (%.100s), expected at most %d numbers below 2^31", ErrFormat, m[3], maxNPYRank)
		}
		a.Dims = append(a.Dims, int(d))
		if empty = empty || d == 0; d > 0 {
			bytes *= d // at most 2^31 * 2^31
		}
		if bytes > maxNPY {
			return nil, 0, fmt.Errorf("%w: shape (%.100s) of %s has more than %d bytes", ErrTooLarge, m[3], a.Type, maxNPY)
		}
	}
	if empty {
		bytes = 0
	}
	return a, int(bytes), nil
}

// ReadNPYFile calls ReadNPY with the file at path.
func ReadNPYFile(path string) (*NPY, error) {
	return fromFile(path, ReadNPY)
}

// Number is a type of element that arrays are converted to.
type Number interface {
	int32 | int64 | float32 | float64
}

// Numbers returns the elements of a as T. Floats are rounded to T. It returns ErrMismatch
// for floats as an integer type, and for an integer that T does not hold.
func Numbers[T Number](a *NPY) ([]T, error) {
	size := npySizes[a.Type]
	if size == 0 || len(a.Data)%size != 0 {
		return nil, fmt.Errorf("%w: %d bytes of type %.20q", ErrMismatch, len(a.Data), a.Type)
	}
	out := make([]T, len(a.Data)/size)
	half := 0.5
	integer := T(half) == 0 // T has no fractions
	for i := range out {
		var wide [8]byte
		copy(wide[:], a.Data[i*size:(i+1)*size])
		bits := binary.LittleEndian.Uint64(wide[:])
		ok := true
		switch a.Type[1] {
		case 'f':
			x := math.Float64frombits(bits)
			if size == 4 {
				x = float64(math.Float32frombits(uint32(bits)))
			}
			out[i], ok = T(x), !integer
		case 'i':
			x := int64(bits<<(64-8*size)) >> (64 - 8*size)
			out[i] = T(x)
			ok = !integer || int64(out[i]) == x
		default:
			out[i] = T(bits)
			ok = !integer || out[i] >= 0 && uint64(out[i]) == bits
		}
		if !ok {
			return nil, fmt.Errorf("%w: element %d of type %s does not fit into %T", ErrMismatch, i, a.Type, out[i])
		}
	}
	return out, nil
}

// WriteNPY writes the elements of an array of the given dims, row-major, in NumPy's file
// format. It returns ErrMismatch if they are not as many as dims have.
func WriteNPY[T Number](w io.Writer, elements []T, dims ...int) error {
	n, shape := 1, ""
	for _, d := range dims {
		if d < 0 || d > 0 && n > math.MaxInt/d {
			return fmt.Errorf("%w: dims %v, expected the product of none below 0 in 63 bits", ErrMismatch, dims)
		}
		n *= d
		shape += fmt.Sprintf("%d, ", d)
	}
	if n != len(elements) {
		return fmt.Errorf("%w: %d elements for dims %v, expected %d", ErrMismatch, len(elements), dims, n)
	}
	if len(dims) > 1 { // only that of one dim has a comma behind it
		shape = strings.TrimSuffix(shape, ", ")
	}
	kind := map[string]string{"int32": "<i4", "int64": "<i8", "float32": "<f4", "float64": "<f8"}[fmt.Sprintf("%T", *new(T))]
	head := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", kind, strings.TrimSuffix(shape, " "))
	const align = 64 // of the elements, as NumPy has it
	begin := len(npyMagic) + 4
	head += strings.Repeat(" ", align-1-(begin+len(head))%align) + "\n"
	b := append([]byte(npyMagic), 1, 0)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(head)))
	if _, err := w.Write(append(b, head...)); err != nil {
		return err
	}
	return binary.Write(w, binary.LittleEndian, elements)
}
