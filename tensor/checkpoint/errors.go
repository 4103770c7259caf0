package checkpoint

import "errors"

var (
	// ErrNone is returned by Open when the folder holds no checkpoint.
	ErrNone = errors.New("checkpoint: none here")

	// ErrFormat is returned for a manifest or a file that breaks a rule of the format.
	ErrFormat = errors.New("checkpoint: bad format")

	// ErrDamaged is returned when bytes differ from those that were written.
	ErrDamaged = errors.New("checkpoint: damaged")

	// ErrMismatch is returned when a checkpoint doesn't fit the tensors to be restored:
	// another model, another run.
	ErrMismatch = errors.New("checkpoint: does not fit")

	// ErrBusy is returned by Save while another Save runs in the same folder.
	ErrBusy = errors.New("checkpoint: folder is being saved to")
)
