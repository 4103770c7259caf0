package tensor

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
)

const module = "github.com/ringside-go/ringside/tensor"

// MaxErrorArgs is the number of arguments that an error lists; concat may have thousands.
const MaxErrorArgs = 8

// opError returns the error of an operation with the types of its arguments and the call
// site.
func opError(op Op, args []Arg, err error) error {
	var b strings.Builder
	for i, a := range args {
		if i > 0 {
			b.WriteString(", ")
		}
		if i == MaxErrorArgs {
			fmt.Fprintf(&b, "%d more", len(args)-i)
			break
		}
		if a.t != nil && a.t.v.s == nil {
			b.WriteString("nil")
		} else if a.t != nil {
			b.WriteString(a.t.v.String())
		} else {
			fmt.Fprintf(&b, "%g", a.f)
		}
	}
	return &OpError{Op: op.String(), Inputs: b.String(), Site: callSite(), Err: err}
}

// CallError returns err as an OpError of the call op of another package of tensors, about
// tensors of s, with the place of the call outside of these packages. An error that is an
// OpError already stays as it is, and so does nil.
func CallError(s *Session, op string, err error) error {
	var is *OpError
	if err == nil || errors.As(err, &is) {
		return err
	}
	if s != nil && s.site != nil {
		return &OpError{Op: op, Site: s.site(), Err: err}
	}
	return &OpError{Op: op, Site: callSite(), Err: err}
}

// stack is a list of callers, innermost first. File and line are looked up only for an
// error, since that costs more than an operation.
type stack struct {
	pcs  [32]uintptr
	n    int
	text string // file and line in another language, instead
}

// OnePlace runs f. All that f records in s counts as recorded where OnePlace is called,
// so that the place, which an error while running names, is looked for only once. It is
// for packages that record much for one call. Calls nest; the outermost one counts.
func OnePlace(s *Session, f func()) {
	if s.rec.site == nil {
		site := callersOf(s, &s.rec.places.near[OpInvalid])
		s.rec.site = &site
		defer func() { s.rec.site = nil }()
	}
	f()
}

// callersOf returns the place of a running OnePlace, otherwise that which the Site of s's
// options returns, otherwise the stack of the caller's caller. near is as for callers.
func callersOf(s *Session, near *uint8) stack {
	if s.rec.site != nil {
		return *s.rec.site
	}
	if s.site != nil {
		return stack{text: s.site()}
	}
	return s.rec.places.callers(near)
}

// places remembers which callers are outside the tensor packages, by the address of the
// call. For each operation it remembers how many callers to look at until one is outside:
// looking at more takes time.
type places struct {
	known map[uintptr]bool
	near  [opLimit]uint8 // by operation; OpInvalid stands for OnePlace
	large uint8          // the same for largeValues
}

// callers returns the stack of the caller's caller, or the innermost part of it that has
// a caller outside the tensor packages. It looks at near callers first. If none of these
// is outside, it looks at all, and sets near to the number that it needed.
func (p *places) callers(near *uint8) (c stack) {
	const skip = 3 // runtime.Callers, this and callersOf
	c.n = runtime.Callers(skip, c.pcs[:*near])
	for i := c.n - 1; i >= 0; i-- {
		if p.outside(c.pcs[i]) {
			return c
		}
	}
	c.n = runtime.Callers(skip, c.pcs[:])
	for i, pc := range c.pcs[:c.n] {
		if p.outside(pc) {
			*near = uint8(i + 1)
			break
		}
	}
	return c
}

// outside reports whether a call at pc is outside the tensor packages.
func (p *places) outside(pc uintptr) bool {
	is, known := p.known[pc]
	if !known {
		is = stack{pcs: [32]uintptr{pc}, n: 1}.String() != ""
		p.known[pc] = is
	}
	return is
}

// callers returns the stack of the caller's caller.
func callers() (c stack) {
	c.n = runtime.Callers(3, c.pcs[:])
	return c
}

// callSite returns the file and line of the caller's stack.
func callSite() string { return callers().String() }

// String returns the file and line of the innermost caller outside the tensor packages.
// Their tests count as outside.
func (c stack) String() string {
	if c.text != "" {
		return c.text
	}
	frames := runtime.CallersFrames(c.pcs[:c.n])
	for {
		f, more := frames.Next()
		if f.Function == "" {
			return ""
		}
		if !strings.HasPrefix(f.Function, module) || strings.HasSuffix(f.File, "_test.go") {
			return fmt.Sprintf("%s:%d", f.File, f.Line)
		}
		if !more {
			return ""
		}
	}
}

// siteMark is the place where a fallible instruction was recorded.
type siteMark struct {
	instr int
	site  stack
}

// located adds the place where an instruction was recorded to an engine's error about it.
func located(err error, sites []siteMark) error {
	re, ok := err.(*RunError)
	if !ok {
		return err
	}
	i := slices.IndexFunc(sites, func(m siteMark) bool { return m.instr == re.Instr })
	if i < 0 {
		return err
	}
	return &OpError{Op: re.Op, Inputs: re.Inputs, Site: sites[i].site.String(), Err: re.Err}
}
