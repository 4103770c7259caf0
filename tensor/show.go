package tensor

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/ringside-go/ringside/collective/element"
)

// NumPy's defaults of numpy.set_printoptions.
const (
	showAll       = 1000 // elements of a tensor that is not summarised
	showEdge      = 3    // at both ends of a dim that is
	showPrecision = 8    // digits after the point
	showWidth     = 75
)

// Show returns t's content as NumPy prints an array, and then its dtype and shape: short
// numbers in columns, and "..." for the middle of more than 1000 elements. It is a sync
// point and reads all of t, as Data does; printing a tensor by package fmt (String) reads
// nothing and waits for nothing.
func (t *Tensor) Show() (string, error) {
	var text string
	err := t.ViewBytes(func(b []byte) error {
		text = show(t.v.dtype, t.v.shape, b) + " " + t.v.String()
		return nil
	})
	return text, err
}

// show returns the elements b as text.
func show(d DType, dims Shape, b []byte) string {
	p := &shower{dims: dims, summary: dims.Elems() > showAll}
	if dims.Elems() > 0 {
		p.use(d, b)
	}
	return p.dim(0, 0, " ", showWidth)
}

// shower prints an array.
type shower struct {
	dims    Shape
	summary bool // leave out the middle of long dims
	element func(i int) string
}

// ends returns how many elements of dim d are shown at its beginning and at its end; all
// are at its end if it is not summarised.
func (p *shower) ends(d int) (head, tail int) {
	if n := p.dims[d]; !p.summary || n <= 2*showEdge {
		return 0, n
	}
	return showEdge, showEdge
}

// shown appends the indices of the elements that are shown, below the index at of the
// first d dims.
func (p *shower) shown(all []int, d, at int) []int {
	if d == len(p.dims) {
		return append(all, at)
	}
	n := p.dims[d]
	head, tail := p.ends(d)
	for i := range n {
		if i < head || i >= n-tail {
			all = p.shown(all, d+1, at*n+i)
		}
	}
	return all
}

// use sets how elements of b are printed, from those that are shown.
func (p *shower) use(d DType, b []byte) {
	shown := p.shown(nil, 0, 0)
	size := d.Size()
	at := func(i int) []byte { return b[i*size : (i+1)*size] }
	switch {
	case d == Bool:
		p.element = func(i int) string {
			text := strconv.FormatBool(b[i] != 0)
			return fmt.Sprintf("%*s", min(len(p.dims), 1)*5, strings.ToUpper(text[:1])+text[1:])
		}
	case !d.IsFloat():
		text := func(i int) string {
			if d == I64 {
				return strconv.FormatInt(elements[int64](at(i))[0], 10)
			}
			return strconv.FormatFloat(first(d, at(i)), 'f', 0, 64)
		}
		width := 0
		for _, i := range shown {
			width = max(width, len(text(i)))
		}
		p.element = func(i int) string { return fmt.Sprintf("%*s", width, text(i)) }
	default:
		value := func(i int) float64 { return nearest(d, first(d, at(i))) }
		bits := 64
		if d == F32 {
			bits = 32
		}
		if len(p.dims) == 0 {
			p.element = func(i int) string { return showNumber(value(i), bits) }
			return
		}
		values := make([]float64, len(shown))
		for k, i := range shown {
			values[k] = value(i)
		}
		format := floatFormat(values, bits)
		p.element = func(i int) string { return format(value(i)) }
	}
}

// nearest returns the number with the fewest digits that rounds to x, if x is one of 16
// bits; else x.
func nearest(d DType, x float64) float64 {
	if !d.IsHalf() || math.IsNaN(x) || math.IsInf(x, 0) {
		return x
	}
	for digits := 0; ; digits++ {
		y, _ := strconv.ParseFloat(strconv.FormatFloat(x, 'e', digits, 64), 64)
		back := float64(element.ToFloat16(float32(y)).Float32())
		if d == BF16 {
			back = float64(element.ToBFloat16(float32(y)).Float32())
		}
		if back == x || digits == 16 {
			return y
		}
	}
}

// showNumber returns a single number as Python prints one.
func showNumber(x float64, bits int) string {
	switch a := math.Abs(x); {
	case math.IsNaN(x) || math.IsInf(x, 0):
		return notFinite(x)
	case a == 0 || a >= 1e-4 && a < 1e16:
		text := strconv.FormatFloat(x, 'f', -1, bits)
		if !strings.Contains(text, ".") {
			text += ".0"
		}
		return text
	}
	return strconv.FormatFloat(x, 'e', -1, bits)
}

// notFinite returns nan, inf or -inf.
func notFinite(x float64) string {
	switch {
	case math.IsNaN(x):
		return "nan"
	case x < 0:
		return "-inf"
	}
	return "inf"
}

// digitsOf returns x in the format f or e in the fewest digits, at most showPrecision
// after the point, as the parts before and after the point and the exponent with its
// sign.
func digitsOf(x float64, format byte, bits int) (whole, fraction, exponent string) {
	text := strconv.FormatFloat(x, format, -1, bits)
	if m, _, _ := strings.Cut(text, "e"); len(m)-strings.IndexByte(m+".", '.')-1 > showPrecision {
		text = strconv.FormatFloat(x, format, showPrecision, 64)
	}
	text, exponent, _ = strings.Cut(text, "e")
	whole, fraction, _ = strings.Cut(text, ".")
	return whole, strings.TrimRight(fraction, "0"), exponent
}

// floatFormat returns the function that prints each of values in the same width, by the
// rules of NumPy: with an exponent if one of them is 1e8 or more or below 1e-4, or if
// they differ by more than a factor of 1000.
func floatFormat(values []float64, bits int) func(x float64) string {
	least, most := math.Inf(1), 0.0
	finite := slices.DeleteFunc(slices.Clone(values), func(x float64) bool { return math.IsNaN(x) || math.IsInf(x, 0) })
	for _, x := range finite {
		if a := math.Abs(x); a > 0 {
			least, most = min(least, a), max(most, a)
		}
	}
	format := byte('f')
	if most > 0 && (most >= 1e8 || least < 1e-4 || most/least > 1000) {
		format = 'e'
	}
	var left, right, power int // widths of the three parts
	for _, x := range finite {
		whole, fraction, exponent := digitsOf(x, format, bits)
		left, right, power = max(left, len(whole)), max(right, len(fraction)), max(power, len(exponent)-1)
	}
	after := right // characters behind the point
	if format == 'e' {
		after += 2 + power
	}
	for _, x := range values {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			left = max(left, len(notFinite(x))-after-1)
		}
	}
	return func(x float64) string {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return fmt.Sprintf("%*s", left+1+after, notFinite(x))
		}
		whole, fraction, exponent := digitsOf(x, format, bits)
		if format == 'f' {
			return fmt.Sprintf("%*s.%-*s", left, whole, right, fraction)
		}
		return fmt.Sprintf("%*s.%se%c%s", left, whole, fraction+strings.Repeat("0", right-len(fraction)), exponent[0], strings.Repeat("0", power+1-len(exponent))+exponent[1:])
	}
}

// dim prints dim d below the index at of the dims before it. Lines but the first begin
// with indent; they have at most width characters where elements are shorter.
func (p *shower) dim(d, at int, indent string, width int) string {
	switch {
	case p.element == nil:
		return "[]"
	case d == len(p.dims):
		return p.element(at)
	}
	n := p.dims[d]
	head, tail := p.ends(d)
	var items []string
	for i := range n {
		if i < head || i >= n-tail {
			items = append(items, p.dim(d+1, at*n+i, indent+" ", width-1))
		}
		if head > 0 && i == head {
			items = append(items, "...")
		}
	}
	if left := len(p.dims) - d; left > 1 {
		return "[" + strings.Join(items, strings.Repeat("\n", left-1)+indent) + "]"
	}
	var b strings.Builder
	line := indent
	for i, item := range items {
		if i > 0 {
			line += " "
		}
		if len(line) > len(indent) && len(line)+len(item) > width-1 {
			b.WriteString(strings.TrimRight(line, " ") + "\n")
			line = indent
		}
		line += item
	}
	b.WriteString(line)
	return "[" + b.String()[len(indent):] + "]"
}
