package model

import "errors"

// ErrConfig is returned for a model that can't be built, naming the field.
var ErrConfig = errors.New("model: bad configuration")
