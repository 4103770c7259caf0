package dispatcher

import "errors"

// ErrOption is returned by New for an option outside its range.
var ErrOption = errors.New("dispatcher: bad option")
