package ipc

import (
	"fmt"
	"log/slog"
	"math/bits"

	"github.com/ringside-go/ringside/ipc/wire"
)

// WithDefaults returns a copy of o (nil is fine) with every default filled in except
// Waiter, which the transport chooses. The error is ErrBadOption, naming the option and
// its range.
func (o *Options) WithDefaults() (Options, error) {
	var c Options
	if o != nil {
		c = *o
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.RingBytes == 0 {
		c.RingBytes = DefaultRingBytes
	}
	if err := CheckRingBytes(c.RingBytes); err != nil {
		return c, err
	}
	if len(c.Hello.Name) > wire.MaxName || len(c.Hello.Note) > wire.MaxNote {
		return c, fmt.Errorf("%w: Hello.Name has %d bytes, Hello.Note %d, at most %d and %d",
			ErrBadOption, len(c.Hello.Name), len(c.Hello.Note), wire.MaxName, wire.MaxNote)
	}
	if c.Hello.Version == 0 {
		c.Hello.Version = wire.Version
	}
	if c.Backlog < 0 {
		return c, fmt.Errorf("%w: Backlog %d is negative", ErrBadOption, c.Backlog)
	}
	if c.Backlog == 0 {
		c.Backlog = DefaultBacklog
	}
	if c.HandshakeTimeout < 0 {
		return c, fmt.Errorf("%w: HandshakeTimeout %v is negative", ErrBadOption, c.HandshakeTimeout)
	}
	if c.HandshakeTimeout == 0 {
		c.HandshakeTimeout = DefaultHandshakeTimeout
	}
	if c.AllowGID < 0 {
		return c, fmt.Errorf("%w: AllowGID %d is negative", ErrBadOption, c.AllowGID)
	}
	c.Secret = append([]byte(nil), c.Secret...)
	return c, nil
}

// CheckRingBytes checks a queue size, be it an option or what a peer asks for.
func CheckRingBytes(n int) error {
	if n < MinRingBytes || n > MaxRingBytes || bits.OnesCount(uint(n)) != 1 {
		return fmt.Errorf("%w: RingBytes %d is not a power of two between %d and %d",
			ErrBadOption, n, MinRingBytes, MaxRingBytes)
	}
	return nil
}
