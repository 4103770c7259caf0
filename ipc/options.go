package ipc

import (
	"fmt"
	"log/slog"
	"math/bits"
)

// WithDefaults returns a copy of o (nil is fine) with every default filled in, except
// Waiter and Hello.Version, which are the transport's to choose. The error is
// ErrBadOption, naming the option and what it may be.
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
