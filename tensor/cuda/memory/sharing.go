package memory

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"github.com/ringside-go/ringside/shm"
)

// Namespace returns a number that is the same in processes of one PID namespace.
func Namespace() (uint64, error) {
	var st syscall.Stat_t
	if err := syscall.Stat("/proc/self/ns/pid", &st); err != nil {
		return 0, fmt.Errorf("/proc/self/ns/pid: %w", err)
	}
	return st.Ino, nil
}

// KindBetween returns how two processes share segments, given the Namespace of each: the
// driver opens handles in the exporter's PID namespace alone.
func KindBetween(exporter, importer uint64) Kind {
	if exporter == importer {
		return Handles
	}
	return Descriptors
}

// trial is what the importer of a trial finds in the segment.
var trial = bytes.Repeat([]byte("ringside"), align/len("ringside"))

// Try returns nil if another process can open a segment of kind k. It exports one and
// calls other, which passes order, and f where there is one, to Tried in another process.
func (d *Device) Try(k Kind, other func(order io.Reader, f *os.File) error) error {
	p, err := d.NewPool(k)
	if err != nil {
		return err
	}
	return errors.Join(d.try(p, other), p.Close())
}

func (d *Device) try(p *Pool, other func(order io.Reader, f *os.File) error) error {
	s, err := d.NewStream()
	if err != nil {
		return err
	}
	b, err := p.Alloc(len(trial))
	if err != nil {
		return errors.Join(err, s.Close())
	}
	defer b.Release()
	err = errors.Join(s.Write(p.Address(b), trial), s.Close())
	if err != nil {
		return err
	}
	e, f, err := p.Export(b.Handle().Segment)
	if err != nil {
		return err
	}
	return other(bytes.NewReader(b.Handle().Append(e.Append(nil))), f)
}

// Tried is the other process's side of Try. f is nil where order came without one.
func (d *Device) Tried(order io.Reader, f *os.File) error {
	var in [ExportSize + shm.HandleSize]byte
	if _, err := io.ReadFull(order, in[:]); err != nil {
		return fmt.Errorf("order: %w", err)
	}
	e, err := ParseExport(in[:ExportSize])
	if err != nil {
		return err
	}
	t := d.NewImports(nil)
	if err := t.Add(0, e, f); err != nil {
		return err
	}
	return errors.Join(d.compare(t, shm.GetHandle(in[ExportSize:])), t.Close())
}

// compare checks that the handle's memory holds the trial's bytes.
func (d *Device) compare(t *Imports, h shm.Handle) error {
	at, err := t.Resolve(0, h)
	if err != nil {
		return err
	}
	s, err := d.NewStream()
	if err != nil {
		return err
	}
	got := make([]byte, len(trial))
	if err := errors.Join(s.Read(got, at), s.Close()); err != nil {
		return err
	}
	if !bytes.Equal(got, trial) {
		return fmt.Errorf("the segment of %v holds other bytes than its exporter wrote", h)
	}
	return nil
}
