package tensor

import (
	"cmp"
	"errors"
	"fmt"
)

var (
	// ErrShape is returned when shapes, dims or counts don't fit an operation.
	ErrShape = errors.New("tensor: wrong shape")
	// ErrDType is returned when an operation doesn't take the element type.
	ErrDType = errors.New("tensor: wrong dtype")
	// ErrReleased is returned when a tensor is used after Free, after the Scope that made
	// it, or after its session.
	ErrReleased = errors.New("tensor: tensor was released")
	// ErrNil is returned when an operation is given a nil tensor.
	ErrNil = errors.New("tensor: nil tensor")
	// ErrOtherSession is returned when one operation mixes tensors of two sessions.
	ErrOtherSession = errors.New("tensor: tensors of different sessions")
	// ErrConcurrent is returned when two goroutines use one session at the same time.
	ErrConcurrent = errors.New("tensor: session used by two goroutines at once")
	// ErrIndex is returned when an index tensor holds a value out of range.
	ErrIndex = errors.New("tensor: index out of range")
	// ErrNoSpace is returned when an engine has no memory for an upload or a result.
	ErrNoSpace = errors.New("tensor: out of memory")
	// ErrProgram is returned when an encoded program is malformed.
	ErrProgram = errors.New("tensor: malformed program")
	// ErrUnknown is returned by an engine for an id that it doesn't hold.
	ErrUnknown = errors.New("tensor: unknown tensor id")
	// ErrClosed is returned by every call on a closed session or engine.
	ErrClosed = errors.New("tensor: closed")
	// ErrLost is returned by every call on a session whose engine is gone with all its
	// values.
	ErrLost = errors.New("tensor: session lost")
	// ErrStopped is returned for a program that was stopped before its end, because its
	// client closed the session, gave up waiting or is gone.
	ErrStopped = errors.New("tensor: program stopped")
	// ErrWork is returned for a program with more work than the engine takes.
	ErrWork = errors.New("tensor: too much work")
	// ErrSignal is returned for an invalid signal name, and for more signals than the
	// limit.
	ErrSignal = errors.New("tensor: bad signal")
	// ErrNoGrad is returned when a gradient is requested of a tensor that has none.
	ErrNoGrad = errors.New("tensor: no gradient")
)

// OpError is the error of one operation, with its inputs and the place that recorded it.
// It unwraps to one of the errors above.
type OpError struct {
	Op     string // operation, as in the op table
	Inputs string // dtypes and shapes of its inputs
	Site   string // file:line of the call that recorded it; empty if unknown
	Err    error
}

// Error names the operation, its inputs and the line that recorded it.
func (e *OpError) Error() string {
	s := e.Op
	if e.Inputs != "" {
		s += " of " + e.Inputs
	}
	s += ": " + e.Err.Error()
	if e.Site != "" {
		s += " (recorded at " + e.Site + ")"
	}
	return s
}

// Unwrap returns the cause.
func (e *OpError) Unwrap() error { return e.Err }

// RunError is an engine's error of one instruction of a program. A session turns it into
// an OpError with the place that recorded the instruction.
type RunError struct {
	Instr  int    // index in Program.Instrs
	Op     string // its operation
	Inputs string // dtypes and shapes of its arguments
	Err    error  // unwraps to one of the errors above
}

// Error names the operation, its inputs and the number of the instruction.
func (e *RunError) Error() string {
	return fmt.Sprintf("%s of %s (instruction %d): %v", e.Op, e.Inputs, e.Instr, e.Err)
}

// Unwrap returns the cause.
func (e *RunError) Unwrap() error { return e.Err }

// Failure is the error of a program that an engine ran, or was to run. A session turns it
// into the error of the values that do not exist, and returns Err with the place that
// recorded the instruction.
type Failure struct {
	Base uint64 // of the Batch: tells which program failed
	Err  error  // the reason: a *RunError if an instruction failed
	// Rest says that all results of the program exist except those that depend on an
	// instruction that failed, or on an input that does not exist. Without it none does.
	Rest bool
	// More are further failures: of other instructions of the same program, which do not
	// depend on the first, and of later programs.
	More []*Failure
}

// Error is the text of Err.
func (f *Failure) Error() string { return f.Err.Error() }

// Unwrap returns Err.
func (f *Failure) Unwrap() error { return f.Err }

// MaxFailures is the number of failures that an engine keeps to tell them with the first.
const MaxFailures = 1 << 10

// Join adds other and all of its More to f's, as far as MaxFailures allows. It returns f,
// or other if f is nil.
func (f *Failure) Join(other *Failure) *Failure {
	if f == nil || other == nil {
		return cmp.Or(f, other)
	}
	more := other.More
	other.More = nil
	f.More = append(append(f.More, other), more...)
	f.More = f.More[:min(len(f.More), MaxFailures)]
	return f
}
