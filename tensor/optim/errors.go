package optim

import "errors"

// ErrGrads is returned when the gradients are not those of the parameters: another number, shape or dtype.
var ErrGrads = errors.New("optim: gradients do not fit the parameters")
