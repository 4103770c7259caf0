package memory

import (
	"errors"
	"fmt"
	"syscall"
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

// Sharing exports a segment of kind k, and returns nil if the driver can.
func (d *Device) Sharing(k Kind) error {
	p, err := d.NewPool(k)
	if err != nil {
		return err
	}
	b, err := p.Alloc(align)
	if err != nil {
		return errors.Join(err, p.Close())
	}
	_, _, err = p.Export(b.Handle().Segment)
	b.Release()
	return errors.Join(err, p.Close())
}
