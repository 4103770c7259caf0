package optim

import "errors"

// ErrGrads is returned when the gradients do not fit the parameters: another number,
// shape or dtype.
var ErrGrads = errors.New("optim: gradients do not fit the parameters")
