package nn

import "errors"

// ErrMismatch is returned when a file's tensors are not the model's: missing or unknown
// names, other shapes, other element types.
var ErrMismatch = errors.New("nn: file does not fit the model")
