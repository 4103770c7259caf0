package ipc

import (
	"cmp"
	"fmt"
	"log/slog"
	"math/bits"

	"github.com/ringside-go/ringside/ipc/encoding"
)

// WithDefaults returns a copy of o (nil is fine) with every default filled in except
// Waiter, which the transport chooses. The error is ErrBadOption, naming the option and
// its range.
func (o *Options) WithDefaults() (Options, error) {
	c := *cmp.Or(o, &Options{})
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	c.RingBytes = cmp.Or(c.RingBytes, DefaultRingBytes)
	if err := CheckRingBytes(c.RingBytes); err != nil {
		return c, err
	}
	if len(c.Hello.Name) > encoding.MaxName || len(c.Hello.Note) > encoding.MaxNote {
		return c, fmt.Errorf("%w: Hello.Name has %d bytes, Hello.Note %d, at most %d and %d",
			ErrBadOption, len(c.Hello.Name), len(c.Hello.Note), encoding.MaxName, encoding.MaxNote)
	}
	c.Hello.Version = cmp.Or(c.Hello.Version, encoding.Version)
	if c.Backlog < 0 || c.HandshakeTimeout < 0 || c.AllowGID < 0 {
		return c, fmt.Errorf("%w: Backlog %d, HandshakeTimeout %v, AllowGID %d: negative", ErrBadOption,
			c.Backlog, c.HandshakeTimeout, c.AllowGID)
	}
	c.Backlog = cmp.Or(c.Backlog, DefaultBacklog)
	c.HandshakeTimeout = cmp.Or(c.HandshakeTimeout, DefaultHandshakeTimeout)
	c.Secret = append([]byte(nil), c.Secret...)
	if t := c.TLS; t != nil && (t.Certificate == nil) != (t.CAs == nil) {
		return c, fmt.Errorf("%w: TLS has Certificate or CAs alone, expected both or none", ErrBadOption)
	}
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
