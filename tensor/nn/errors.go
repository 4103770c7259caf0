package nn

import "errors"

// ErrMismatch is returned when a file's tensors are not the model's: names that are missing or unknown, other shapes,
// other element types.
var ErrMismatch = errors.New("nn: file does not fit the model")
