package train

import (
	"errors"
	"fmt"
)

var (
	// ErrModel is returned for the name of a model that isn't in the list; the error
	// lists all.
	ErrModel = errors.New("train: unknown model")

	// ErrOption is returned for an invalid option, with its name, its value and the
	// expected value.
	ErrOption = errors.New("train: bad option")

	// ErrDiverged is returned when a loss is not a finite number.
	ErrDiverged = errors.New("train: the loss is not finite")

	// ErrData is returned when data doesn't fit a model, such as images of another size
	// or a text that is too short.
	ErrData = errors.New("train: data does not fit the model")
)

// worded is an error with the given text that unwraps to the error is, whose own text it
// leaves out.
type worded struct {
	text string
	is   error
}

func (w *worded) Error() string { return w.text }

func (w *worded) Unwrap() error { return w.is }

// OptionError is the ErrOption of one option's value.
type OptionError struct {
	Name string // as the flag of the command train has it
	Got  any
	Want string
}

// Error names the option, its value and what was expected.
func (e *OptionError) Error() string {
	return fmt.Sprintf("%v: %s is %v, expected %s", ErrOption, e.Name, e.Got, e.Want)
}

// Unwrap returns ErrOption.
func (e *OptionError) Unwrap() error { return ErrOption }
