package ptx

import (
	"fmt"
	"math"
	"strings"
)

// class is a kind of register.
type class uint8

const (
	pred class = iota
	b16
	b32
	b64
	f32
	f64
	classes
)

var prefixes = [classes]string{"%p", "%h", "%r", "%d", "%f", "%g"}
var types = [classes]string{"pred", "b16", "b32", "b64", "f32", "f64"}

// reg is a register or a constant, as it stands in the text.
type reg string

// writer writes the body of a kernel. Its methods add an instruction and return the
// register of the result.
type writer struct {
	body   strings.Builder
	used   [classes]int
	labels int
}

// new returns a register that was not used before.
func (w *writer) new(c class) reg {
	w.used[c]++
	return reg(fmt.Sprintf("%s%d", prefixes[c], w.used[c]-1))
}

// line adds an instruction without a result.
func (w *writer) line(format string, args ...any) {
	w.body.WriteByte('\t')
	fmt.Fprintf(&w.body, format, args...)
	w.body.WriteString(";\n")
}

// label marks the next instruction.
func (w *writer) label(name string) {
	w.body.WriteString(name + ":\n")
}

// op adds an instruction whose result is of class c.
func (w *writer) op(c class, name string, args ...reg) reg {
	dst := w.new(c)
	w.body.WriteString("\t" + name + " " + string(dst))
	for _, a := range args {
		w.body.WriteString(", " + string(a))
	}
	w.body.WriteString(";\n")
	return dst
}

// halves returns the lower and the upper word of x.
func (w *writer) halves(x reg) [2]reg {
	lo, hi := w.new(b32), w.new(b32)
	w.line("mov.b64 {%s, %s}, %s", lo, hi, x)
	return [2]reg{lo, hi}
}

// declarations returns the registers that the body uses.
func (w *writer) declarations() string {
	var b strings.Builder
	for c, n := range w.used {
		if n > 0 {
			fmt.Fprintf(&b, "\t.reg .%s %s<%d>;\n", types[c], prefixes[c], n)
		}
	}
	return b.String()
}

// single returns a constant of f32, double of f64, whole of an integer.
func single(x float64) reg { return reg(fmt.Sprintf("0f%08X", math.Float32bits(float32(x)))) }
func double(x float64) reg { return reg(fmt.Sprintf("0d%016X", math.Float64bits(x))) }
func whole(x int) reg      { return reg(fmt.Sprint(x)) }
