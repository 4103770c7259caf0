package ring

import "errors"

var (
	// ErrFull is returned by Reserve when the ring has no room at this moment.
	ErrFull = errors.New("ring: full")

	// ErrEmpty is returned by Peek when no record is published at this moment.
	ErrEmpty = errors.New("ring: empty")

	// ErrTooLarge is returned by Reserve for a record longer than MaxRecord:
	// waiting would not help.
	ErrTooLarge = errors.New("ring: record too large")

	// ErrCorrupt is returned when the peer stored something that no correct peer
	// stores. It is sticky: the end that saw it never works again.
	ErrCorrupt = errors.New("ring: corrupt")

	// ErrLayout is returned when memory given to Init, NewProducer, NewConsumer,
	// InitBell or NewBell is not of the size or alignment expected, by NewProducer and
	// NewConsumer for another magic or version, and by the tools' Inspect and InspectBell
	// for too few bytes or another magic; they return the version.
	ErrLayout = errors.New("ring: bad layout")
)
