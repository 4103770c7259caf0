package config

import (
	"errors"
	"fmt"
)

// ErrConfig is returned for a config that says what can't be.
var ErrConfig = errors.New("config: bad config")

// Error is what is wrong with a config, and where. It unwraps to ErrConfig.
type Error struct {
	File      string // empty for a config made in Go
	Line, Col int    // from 1; 0 where it isn't known
	Key       string // path of the key: batch.shard.axis
	Value     string // as it was given
	Problem   string // and what is allowed
}

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

func (e *Error) Unwrap() error { return ErrConfig }
