package protocol

import (
	"encoding/binary"
	"fmt"
)

// GreetingBytes is the size of an encoded Greeting.
const GreetingBytes = 32

// Greeting is the first message between two ranks of a communicator.
//
//	byte 0        4      8    12      16                24
//	    | version | rank | to | ranks | hash of options | bytes of the page |
//
// Numbers are little endian.
type Greeting struct {
	Version  uint32 // of the communicator's layout or protocol
	Rank, To int    // of the sender and the receiver
	Ranks    int
	Options  uint64 // hash of the options that all ranks must have alike
	Page     uint64 // bytes of the memory that comes with it, 0 for none
}

// Append appends the 32 bytes of g.
func (g Greeting) Append(b []byte) []byte {
	le := binary.LittleEndian
	for _, v := range []int{int(g.Version), g.Rank, g.To, g.Ranks} {
		b = le.AppendUint32(b, uint32(v))
	}
	return le.AppendUint64(le.AppendUint64(b, g.Options), g.Page)
}

// Check returns ErrMismatch unless b is g. names are those of the options.
func (g Greeting) Check(b []byte, names string) error {
	if len(b) != GreetingBytes {
		return fmt.Errorf("%w: its greeting has %d bytes, expected %d", ErrMismatch, len(b), GreetingBytes)
	}
	le := binary.LittleEndian
	for _, field := range []struct {
		what      string
		want, got uint64
	}{
		{"version", uint64(g.Version), uint64(le.Uint32(b))},
		{"rank", uint64(g.Rank), uint64(le.Uint32(b[4:]))},
		{"rank that it greets", uint64(g.To), uint64(le.Uint32(b[8:]))},
		{"number of ranks", uint64(g.Ranks), uint64(le.Uint32(b[12:]))},
		{"hash of the options " + names, g.Options, le.Uint64(b[16:])},
		{"size of the page", g.Page, le.Uint64(b[24:])},
	} {
		if field.want != field.got {
			return fmt.Errorf("%w: its %s is %d, expected %d", ErrMismatch, field.what, field.got, field.want)
		}
	}
	return nil
}
