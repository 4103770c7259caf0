package nn

import "errors"

// ErrMismatch is returned when a file's tensors are not the model's: missing or unknown
// names, other shapes, other element types.
var ErrMismatch = errors.New("nn: file does not fit the model")

// ErrRanks is returned on all ranks when the parameters of one have other names, element
// types or shapes than those of the root.
var ErrRanks = errors.New("nn: ranks have different parameters")
