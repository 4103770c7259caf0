// Package outcome names the outcomes that a peer's payload can have. Every peer that is
// skipped has exactly one, and it is part of the result, so that the result is the same
// on every rank and the peer can be told why.
package outcome

import (
	"context"
	"errors"
	"fmt"
)

// Outcome is one outcome. The zero value is OK.
type Outcome uint8

// The outcomes, in the order in which the specification lists them, and after those
// Spool: the rank that fetched the payload could not keep it, which is not the peer's
// fault. Ranks tell each other their numbers: another one is the last.
const (
	OK Outcome = iota
	NotFound
	TooEarly
	TooLate
	Timeout
	Forbidden
	Network
	TooLarge
	Truncated
	Changed
	BadFormat
	BadDigest
	ManifestMismatch
	WindowMismatch
	MissingParam
	UnknownParam
	BadShape
	IndexRange
	IndexDup
	IndexOrder
	BadQuant
	CodeRange
	NonFinite
	NormLimit
	Banned
	Duplicate
	Cancelled
	Spool
)

var names = [...]string{
	OK: "OK", NotFound: "NOT_FOUND", TooEarly: "TOO_EARLY", TooLate: "TOO_LATE",
	Timeout: "TIMEOUT", Forbidden: "FORBIDDEN", Network: "NETWORK", TooLarge: "TOO_LARGE",
	Truncated: "TRUNCATED", Changed: "CHANGED", BadFormat: "BAD_FORMAT",
	BadDigest: "BAD_DIGEST", ManifestMismatch: "MANIFEST_MISMATCH",
	WindowMismatch: "WINDOW_MISMATCH", MissingParam: "MISSING_PARAM",
	UnknownParam: "UNKNOWN_PARAM", BadShape: "BAD_SHAPE", IndexRange: "INDEX_RANGE",
	IndexDup: "INDEX_DUP", IndexOrder: "INDEX_ORDER", BadQuant: "BAD_QUANT",
	CodeRange: "CODE_RANGE", NonFinite: "NONFINITE", NormLimit: "NORM_LIMIT",
	Banned: "BANNED", Duplicate: "DUPLICATE", Cancelled: "CANCELLED",
	Spool: "SPOOL",
}

// All lists the outcomes in the order of their numbers.
func All() []Outcome {
	all := make([]Outcome, len(names))
	for i := range all {
		all[i] = Outcome(i)
	}
	return all
}

// String returns the name, as in "NOT_FOUND".
func (s Outcome) String() string {
	if int(s) < len(names) {
		return names[s]
	}
	return fmt.Sprintf("STATUS_%d", uint8(s))
}

// MarshalText returns the name.
func (s Outcome) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText takes a name.
func (s *Outcome) UnmarshalText(b []byte) error {
	for i, name := range names {
		if name == string(b) {
			*s = Outcome(i)
			return nil
		}
	}
	return fmt.Errorf("outcome %q: expected one of the names of package outcome", b)
}

// Valid reports whether s is one of the outcomes.
func (s Outcome) Valid() bool { return int(s) < len(names) }

// Retryable reports whether another attempt can end otherwise.
func (s Outcome) Retryable() bool {
	switch s {
	case NotFound, Network, Timeout, Changed, Truncated:
		return true
	}
	return false
}

// Error is an outcome other than OK with its circumstances.
type Error struct {
	Outcome Outcome
	Detail  string
	Err     error // the cause, or nil
}

// Errorf makes an Error whose cause is the last of a that is an error.
func Errorf(s Outcome, format string, a ...any) *Error {
	e := &Error{Outcome: s, Detail: fmt.Sprintf(format, a...)}
	for _, x := range a {
		if err, ok := x.(error); ok {
			e.Err = err
		}
	}
	return e
}

// Error returns the outcome and the detail.
func (e *Error) Error() string { return e.Outcome.String() + ": " + e.Detail }

// Unwrap returns the cause, nil if there is none.
func (e *Error) Unwrap() error { return e.Err }

// Of returns the outcome that err stands for: OK for nil, NETWORK for an error that
// carries none.
func Of(err error) Outcome {
	var e *Error
	switch {
	case err == nil:
		return OK
	case errors.As(err, &e):
		return e.Outcome
	case errors.Is(err, context.DeadlineExceeded):
		return Timeout
	case errors.Is(err, context.Canceled):
		return Cancelled
	}
	return Network
}
