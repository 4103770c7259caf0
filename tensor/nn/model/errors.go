package model

import "errors"

// ErrConfig is returned, with the field's name, for a model that can't be built.
var ErrConfig = errors.New("model: bad configuration")
