package trace

import (
	"bufio"
	"io"
	"strings"
)

// opening is how writer begins a file. A line for each event follows.
const opening = `{"displayTimeUnit":"ns","traceEvents":[`

// lines reads events as long as the file is written as writer writes it: an event a line,
// its keys in one order, texts without escapes. That is several times as fast as a
// decoder of any JSON. It returns what such a decoder has to read on, which is the
// opening again and the first line that is different, and how many bytes of the file the
// decoder does not see.
func (f *File) lines(in *bufio.Reader) (rest io.Reader, before int64) {
	const head = opening + "\n"
	if b, _ := in.Peek(len(head)); string(b) != head {
		return in, 0
	}
	_, _ = in.Discard(len(head)) // Peek has them
	s := line{texts: map[string]string{}}
	var now []byte
	for {
		read, err := in.ReadSlice('\n')
		now = append(now[:0], read...) // Peek overwrites what was read
		var e Event
		s.left, s.bad = now, false
		ok := err == nil && len(f.Events) < maxEvents && s.event(&e)
		if ok { // the next line has to begin as the comma says
			next, _ := in.Peek(1)
			ok = string(s.left) == ",\n" && string(next) == "{" || string(s.left) == "\n" && string(next) == "]"
		}
		if !ok {
			return io.MultiReader(strings.NewReader(head+string(now)), in), before
		}
		before += int64(len(now))
		f.add(&e)
	}
}

// line is what is left of a line.
type line struct {
	left  []byte
	bad   bool              // it is not as expected
	texts map[string]string // that were read, so that equal ones share memory
}

// maxTexts bounds the texts that are kept to be shared.
const maxTexts = 1 << 12

// event reads an event as appendJSON writes it, and reports whether it is one.
func (l *line) event(e *Event) bool {
	l.need(`{"name":`)
	e.Name = l.text()
	if l.skip(`,"cat":`) {
		e.Cat = l.text()
	}
	l.need(`,"ph":`)
	e.Phase = l.text()
	l.need(`,"ts":`)
	e.TS, _ = l.number()
	if l.skip(`,"dur":`) {
		took, _ := l.number()
		e.Dur = &took
	}
	l.need(`,"pid":`)
	e.PID = l.integer()
	l.need(`,"tid":`)
	e.TID = l.integer()
	if l.skip(`,"id":`) {
		e.ID = l.text()
	}
	if l.skip(`,"s":`) {
		e.Scope = l.text()
	}
	if l.skip(`,"bp":`) {
		e.Bind = l.text()
	}
	if l.skip(`,"args":{`) {
		l.arguments(e)
	}
	l.need("}")
	return !l.bad
}

// arguments reads arguments, of which there is one at least, and what ends them.
func (l *line) arguments(e *Event) {
	e.Args = map[string]any{}
	for again := true; again && !l.bad; again = l.skip(",") {
		key := l.text()
		l.need(":")
		if len(l.left) > 0 && l.left[0] == '"' {
			e.Args[key] = l.text()
		} else {
			e.Args[key], _ = l.number()
		}
	}
	l.need("}")
}

// skip skips what is expected, and reports whether it is there.
func (l *line) skip(want string) bool {
	if len(l.left) < len(want) || string(l.left[:len(want)]) != want {
		return false
	}
	l.left = l.left[len(want):]
	return true
}

func (l *line) need(want string) {
	if !l.skip(want) {
		l.bad = true
	}
}

// text reads a text of printable ASCII without escapes.
func (l *line) text() string {
	l.need(`"`)
	n := 0
	for n < len(l.left) && l.left[n] >= ' ' && l.left[n] < 0x7f && l.left[n] != '"' && l.left[n] != '\\' {
		n++
	}
	b := l.left[:n]
	l.left = l.left[n:]
	l.need(`"`)
	s, ok := l.texts[string(b)]
	if !ok {
		s = string(b)
		if len(l.texts) < maxTexts {
			l.texts[s] = s
		}
	}
	return s
}

// maxDigits is how many digits every float64 has room for.
const maxDigits = 15

// powers are those of ten. A quotient by one of them is the float64 next to the decimal
// number, as both its operands are exact.
var powers = [maxDigits + 1]float64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15}

// number reads a number without an exponent, and returns how many digits are behind its
// point.
func (l *line) number() (x float64, fraction int) {
	minus := l.skip("-")
	n, whole := l.digits(0)
	// A number below the power of its digits begins with 0.
	l.bad = l.bad || whole == 0 || whole > 1 && n < uint64(powers[min(whole-1, maxDigits)])
	if l.skip(".") {
		n, fraction = l.digits(n)
		l.bad = l.bad || fraction == 0
	}
	if whole+fraction > maxDigits {
		l.bad = true
		return 0, 0
	}
	if x = float64(n) / powers[fraction]; minus {
		x = -x
	}
	return x, fraction
}

// digits reads digits that follow those of n, and returns the value of all and how many
// they are. Of more than maxDigits the value is meaningless.
func (l *line) digits(n uint64) (value uint64, digits int) {
	for digits < len(l.left) && l.left[digits] >= '0' && l.left[digits] <= '9' {
		n = 10*n + uint64(l.left[digits]-'0')
		digits++
	}
	l.left = l.left[digits:]
	return n, digits
}

// integer reads an integer.
func (l *line) integer() int {
	x, fraction := l.number()
	if fraction > 0 {
		l.bad = true
	}
	return int(x)
}
