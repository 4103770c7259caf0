// Package encodingtest has the tests that every message must pass: it is parsed as it was
// written, its length is known beforehand, a message cut anywhere is refused, and its
// bytes are those of testdata.
package encodingtest

import (
	"bytes"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/ringside-go/ringside/ipc/encoding"
)

// Message is a type of message with its functions.
type Message struct {
	Name   string
	Value  any // a pointer to a message with every field set
	Append func(dst []byte, m any) []byte
	Parse  func(src []byte, m any) error
	Fresh  func() any // returns a pointer to the zero message, as its parser takes it
}

// Of returns the Message of the sample value.
func Of[T any](name string, value *T, app func([]byte, *T) []byte, parse func([]byte, *T) error) Message {
	return Message{
		Name:   name,
		Value:  value,
		Append: func(dst []byte, m any) []byte { return app(dst, m.(*T)) },
		Parse:  func(src []byte, m any) error { return parse(src, m.(*T)) },
		Fresh:  func() any { return new(T) },
	}
}

// Test tests each of the messages. With update it writes their bytes to
// testdata/NAME.hex.
func Test(t *testing.T, messages []Message, update bool) {
	for _, m := range messages {
		t.Run(m.Name, func(t *testing.T) {
			m.roundTrip(t)
			m.truncated(t)
			m.golden(t, update)
		})
	}
}

// roundTrip parses the sample, twice into the same value, and then the zero message.
func (m *Message) roundTrip(t *testing.T) {
	b := m.Append(nil, m.Value)
	if with := m.Append([]byte("in front"), m.Value); string(with) != "in front"+string(b) {
		t.Error("Append does not append")
	}
	got := m.Fresh()
	for _, into := range []string{"a fresh message", "a used message"} {
		if err := m.Parse(b, got); err != nil {
			t.Fatalf("into %s: %v", into, err)
		}
		// nil or empty is the same
		if !reflect.DeepEqual(got, m.Value) && !bytes.Equal(m.Append(nil, got), b) {
			t.Errorf("into %s: parsed %+v\nwant %+v", into, got, m.Value)
		}
	}
	zero := m.Append(nil, m.Fresh())
	if err := m.Parse(zero, got); err != nil {
		t.Errorf("zero message: %v", err)
	}
	if !bytes.Equal(m.Append(nil, got), zero) {
		t.Errorf("zero message after another: %+v", got)
	}
}

// truncated cuts the sample at every byte, and adds one.
func (m *Message) truncated(t *testing.T) {
	b := m.Append(nil, m.Value)
	for n := range len(b) {
		if err := m.Parse(b[:n:n], m.Fresh()); !errors.Is(err, encoding.ErrMalformed) {
			t.Errorf("%d of %d bytes: %v", n, len(b), err)
		}
	}
	if err := m.Parse(append(b, 0), m.Fresh()); !errors.Is(err, encoding.ErrMalformed) {
		t.Errorf("with a byte too many: %v", err)
	}
}

func (m *Message) golden(t *testing.T, update bool) {
	path := filepath.Join("testdata", strings.ToLower(m.Name)+".hex")
	got := hex.Dump(m.Append(nil, m.Value))
	if update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("the bytes changed: raise encoding.Version, then go test -update\n%s\nwas\n%s", got, want)
	}
}

// Fuzz gives the messages' parsers any bytes. A message that one takes is written and
// parsed again, to the same.
func Fuzz(f *testing.F, messages []Message) {
	for i, m := range messages {
		f.Add(uint8(i), m.Append(nil, m.Value))
	}
	f.Fuzz(func(t *testing.T, which uint8, src []byte) {
		m := messages[int(which)%len(messages)]
		first, second := m.Fresh(), m.Fresh()
		if m.Parse(src, first) != nil {
			return
		}
		b := m.Append(nil, first)
		if err := m.Parse(b, second); err != nil {
			t.Fatalf("%s: %v\nwritten from %+v", m.Name, err, first)
		}
		if c := m.Append(nil, second); !bytes.Equal(b, c) {
			t.Fatalf("%s: %x\nthen %x", m.Name, b, c)
		}
	})
}
