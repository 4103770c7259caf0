package local

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/ringside-go/ringside/ring"
)

// Mapping is a piece of shared memory that a process has mapped.
type Mapping struct {
	PID      int             `json:"pid"`
	Address  uint64          `json:"address"`
	Bytes    uint64          `json:"bytes"`
	Inode    uint64          `json:"inode"` // the same in every process that shares it
	File     string          `json:"file"`  // memfd or a path
	Writable bool            `json:"writable"`
	Kind     string          `json:"kind"` // rings, bells or segment
	Rings    []ring.Info     `json:"rings,omitempty"`
	Bells    []ring.BellInfo `json:"bells,omitempty"`
	Unread   string          `json:"unread,omitempty"` // why not, if so
}

// Kinds of Mapping.
const (
	MappedRings   = "rings"
	MappedBells   = "bells"
	MappedSegment = "segment"
)

// memfdName is how the kernel calls what package shm makes.
const memfdName = "/memfd:ringside (deleted)"

// Inspect reads the shared memory of a process without its help, so that process may hang
// or be stopped. It takes the rights of a debugger to read the headers, and less to list
// the mappings. A process that runs may unmap memory meanwhile: memory that is no longer
// mapped at the end is left out, because the address that was read could have belonged to
// another mapping by then.
func Inspect(pid int) ([]Mapping, error) {
	mapped, err := mappings(pid)
	if err != nil {
		return nil, err
	}
	mem, errMem := os.Open("/proc/" + strconv.Itoa(pid) + "/mem")
	if errMem == nil {
		defer mem.Close()
	}
	read := make([]Mapping, len(mapped))
	for i, m := range mapped {
		read[i] = m
		if errMem != nil {
			read[i].Unread = errMem.Error()
		} else if err := read[i].read(mem); err != nil {
			read[i].Unread = err.Error()
		}
	}
	after, err := mappings(pid)
	if err != nil {
		return nil, err
	}
	var out []Mapping
	for i, m := range mapped {
		if slices.ContainsFunc(after, m.same) {
			out = append(out, read[i])
		}
	}
	return out, nil
}

// same reports whether two answers of the kernel are about the same memory.
func (m *Mapping) same(o Mapping) bool {
	return m.Address == o.Address && m.Bytes == o.Bytes && m.Inode == o.Inode && m.File == o.File
}

// mappings lists the shared memory of ours that a process has mapped, with nothing read
// yet.
func mappings(pid int) ([]Mapping, error) {
	maps, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/maps")
	if err != nil {
		return nil, fmt.Errorf("local: %w", err)
	}
	var out []Mapping
	for line := range strings.Lines(string(maps)) {
		if m, ok := parseMapping(line); ok {
			m.PID = pid
			out = append(out, m)
		}
	}
	return out, nil
}

// parseMapping reads a line of /proc/PID/maps, false if it is of no shared memory of
// ours:
//
//	7f0c1c000000-7f0c1d000000 rw-s 00000000 00:01 1234    /memfd:ringside (deleted)
func parseMapping(line string) (m Mapping, ok bool) {
	f := strings.Fields(line)
	if len(f) < 6 || !strings.HasSuffix(f[1], "s") {
		return m, false
	}
	switch name := strings.Join(f[5:], " "); {
	case name == memfdName:
		m.File = "memfd"
	// O_TMPFILE
	case strings.HasPrefix(f[5], "/") && strings.Contains(f[5], "/#") && strings.HasSuffix(name, " (deleted)"):
		m.File = f[5]
	default:
		return m, false
	}
	from, to, _ := strings.Cut(f[0], "-")
	start, err1 := strconv.ParseUint(from, 16, 64)
	end, err2 := strconv.ParseUint(to, 16, 64)
	inode, err3 := strconv.ParseUint(f[4], 10, 64)
	if err1 != nil || err2 != nil || err3 != nil || end <= start {
		return m, false
	}
	m.Address, m.Bytes, m.Inode = start, end-start, inode
	m.Writable, m.Kind = f[1][1] == 'w', MappedSegment
	return m, true
}

// read finds out what the mapping is and reads its headers.
func (m *Mapping) read(mem io.ReaderAt) error {
	head := make([]byte, ring.HeaderSize)
	if m.Bytes < uint64(len(head)) {
		return nil
	}
	if _, err := mem.ReadAt(head, int64(m.Address)); err != nil {
		return err
	}
	if bell, err := ring.InspectBell(head[dataBell:]); err == nil {
		m.Kind, m.Bells = MappedBells, append(m.Bells, bell)
		if bell, err = ring.InspectBell(head[roomBell:]); err == nil {
			m.Bells = append(m.Bells, bell)
		}
		return nil
	}
	info, err := ring.Inspect(head)
	if err != nil {
		return nil // a segment: it has no header
	}
	m.Kind, m.Rings = MappedRings, append(m.Rings, info)
	second := ring.HeaderSize + info.Capacity
	if info.Capacity > m.Bytes || second > m.Bytes-uint64(len(head)) {
		return nil
	}
	if _, err := mem.ReadAt(head, int64(m.Address+second)); err != nil {
		return err
	}
	if info, err = ring.Inspect(head); err == nil {
		m.Rings = append(m.Rings, info)
		return nil
	}
	// A conn that both ends have closed is emptied long before it is unmapped: was that
	// just now?
	if _, err := mem.ReadAt(head, int64(m.Address)); err != nil {
		return err
	}
	if _, err := ring.Inspect(head); err != nil {
		m.Kind, m.Rings = MappedSegment, nil
	}
	return nil
}
