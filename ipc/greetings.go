package ipc

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/ringside-go/ringside/ipc/encoding"
)

// Introduce returns the greeting of this end. ringBytes is 0 at a dialer.
func (o *Options) Introduce(ringBytes int) encoding.Hello {
	return encoding.Hello{
		Version: o.Hello.Version, Role: uint8(o.Hello.Role), Name: o.Hello.Name, Note: o.Hello.Note,
		PID: uint32(os.Getpid()), RingBytes: uint32(ringBytes),
	}
}

// PeerOf returns the peer as it introduced itself. Its user and group are -1: a greeting
// has none.
func PeerOf(m *encoding.Hello) Peer {
	return Peer{Role: Role(m.Role), Name: m.Name, Note: m.Note, Version: m.Version, PID: int(m.PID), UID: -1, GID: -1, Start: m.Start}
}

// GreetingError returns an error of package encoding as ErrVersion or ErrCorrupt.
func GreetingError(err error) error {
	if errors.Is(err, encoding.ErrVersion) {
		return fmt.Errorf("%w: %w", ErrVersion, err)
	}
	return fmt.Errorf("%w: %w", ErrCorrupt, err)
}

// ParseWelcome reads a listener's greeting. It returns ErrRefused for a Refuse, with the
// listener's reason, ErrVersion or ErrCorrupt.
func ParseWelcome(src []byte) (*encoding.Hello, error) {
	kind, _, err := encoding.HandshakeKind(src)
	if err == nil && kind == encoding.KindRefuse {
		return nil, refusal(src)
	}
	var m encoding.Welcome
	if err == nil {
		err = encoding.ParseWelcome(src, &m)
	}
	if err != nil {
		return nil, GreetingError(err)
	}
	if err := CheckRingBytes(int(m.RingBytes)); err != nil {
		return nil, fmt.Errorf("%w: Welcome: %w", ErrCorrupt, err)
	}
	return (*encoding.Hello)(&m), nil
}

func refusal(src []byte) error {
	var m encoding.Refuse
	if err := encoding.ParseRefuse(src, &m); err != nil {
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	switch m.Reason {
	case encoding.RefuseVersion:
		return fmt.Errorf("%w: %w: %s", ErrRefused, ErrVersion, m.Text)
	case encoding.RefuseSecret:
		return fmt.Errorf("%w: %w: %s", ErrRefused, ErrSecret, m.Text)
	}
	return fmt.Errorf("%w: %s", ErrRefused, m.Text)
}

// Busy returns a Busy for a dialer that so many others are before.
func Busy(before int) []byte {
	return encoding.AppendBusy(nil, &encoding.Busy{Version: encoding.Version, Before: uint32(before)})
}

// BusyError is part of Dial's error where the listener was busy when it was last heard:
// so many peers were before this one.
type BusyError struct{ Before int }

// Error says how many greetings come before.
func (e *BusyError) Error() string { return fmt.Sprintf("busy, %d before this one", e.Before) }

// ParseBusy reads a listener's answer. It returns nil if that is not a Busy, which Dial
// then parses as a Welcome.
func ParseBusy(src []byte) *BusyError {
	var m encoding.Busy
	if encoding.ParseBusy(src, &m) != nil {
		return nil
	}
	return &BusyError{int(m.Before)}
}

// DialError returns the error of a Dial that failed with err: the context's, if that is
// done. busy is the listener's last answer of that kind, or nil.
func DialError(ctx context.Context, err error, busy *BusyError) error {
	if ctx.Err() != nil {
		err = ContextError(ctx)
	}
	if busy != nil {
		err = fmt.Errorf("%w: %w", busy, err)
	}
	return err
}
