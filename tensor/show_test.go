package tensor

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/ringside-go/ringside/collective/element"
)

// TestShow compares with what NumPy prints (testdata/show.py).
func TestShow(t *testing.T) {
	raw, err := os.ReadFile("testdata/show.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		DType  string
		Dims   []int
		Values []string
		Text   string
	}
	if err := json.Unmarshal(raw, &cases); err != nil || len(cases) < 70 {
		t.Fatalf("%d cases, %v", len(cases), err)
	}
	types := map[string]DType{"float32": F32, "float64": F64, "float16": F16, "int32": I32, "int64": I64, "uint8": U8, "bool": Bool}
	le := binary.LittleEndian
	for _, c := range cases {
		d := types[c.DType]
		var b []byte
		for _, v := range c.Values {
			x, _ := strconv.ParseFloat(v, 64) // of a bool, below
			switch d {
			case F32:
				b = le.AppendUint32(b, math.Float32bits(float32(x)))
			case F64:
				b = le.AppendUint64(b, math.Float64bits(x))
			case F16:
				b = le.AppendUint16(b, uint16(element.ToFloat16(float32(x))))
			case I32:
				b = le.AppendUint32(b, uint32(int32(x)))
			case I64:
				n, err := strconv.ParseInt(v, 10, 64)
				if err != nil {
					t.Fatal(err)
				}
				b = le.AppendUint64(b, uint64(n))
			case U8:
				b = append(b, byte(x))
			case Bool:
				b = append(b, map[string]byte{"True": 1}[v])
			}
		}
		if got := show(d, c.Dims, b); got != c.Text {
			t.Errorf("%s %v %.100v:\n%s\nNumPy:\n%s", c.DType, c.Dims, c.Values, got, c.Text)
		}
	}
	// NumPy has no bfloat16: the fewest digits that round to it.
	if got := show(BF16, Shape{2}, le.AppendUint16(le.AppendUint16(nil, uint16(element.ToBFloat16(0.1))), uint16(element.ToBFloat16(3.14)))); got != "[0.1  3.14]" {
		t.Errorf("bf16: %s", got)
	}
}

// TestShowReads checks that Show reads the tensor, and that printing it does not.
func TestShowReads(t *testing.T) {
	s, r := newRecorded(t)
	x := Zeros(s, F32, 2, 2)
	if text := fmt.Sprint(x) + fmt.Sprintf(" %v %s %+v", x, x, x); text != strings.TrimSuffix(strings.Repeat("f32[2 2] ", 4), " ") || len(r.batches) != 0 {
		t.Errorf("%q, %d batches", text, len(r.batches))
	}
	if text, err := x.Show(); err != nil || text != "[[0. 0.]\n [0. 0.]] f32[2 2]" || len(r.batches) != 1 {
		t.Errorf("%q, %v, %d batches", text, err, len(r.batches))
	}
	if _, err := x.Matmul(Zeros(s, F32, 3, 3)).Show(); !errors.Is(err, ErrShape) {
		t.Errorf("of an error: %v", err)
	}
}
