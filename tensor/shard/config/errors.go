package config

import (
	"errors"
	"fmt"
)

// ErrConfig is returned for an invalid config.
var ErrConfig = errors.New("config: bad config")

// Error is an error in a config. It unwraps to ErrConfig.
type Error struct {
	File      string // empty for a config made in Go
	Line, Col int    // from 1; 0 if unknown
	Key       string // path of the key, such as batch.shard.axis
	Value     string // as given
	Problem   string // what is wrong, and the allowed values
}

// Error begins with the place in the file.
func (e *Error) Error() string {
	at := e.File
	if e.Line > 0 {
		at = fmt.Sprintf("%s:%d:%d", e.File, e.Line, e.Col)
	}
	s := ErrConfig.Error()
	if at != "" {
		s = at
	}
	if e.Key != "" {
		s += ": " + e.Key
	}
	if e.Value != "" {
		s += ": " + e.Value
	}
	return s + ": " + e.Problem
}

// Unwrap returns ErrConfig.
func (e *Error) Unwrap() error { return ErrConfig }
