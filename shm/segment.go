package shm

import (
	"cmp"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/edsrzf/mmap-go"
	"golang.org/x/sys/unix"

	"github.com/ringside-go/ringside/shm/limits"
)

// MaxSegment is the largest segment: 1 TiB is more than machines have, and far
// from where offsets overflow.
const MaxSegment = 1 << 40

// Options are the choices of Create and FromFile; nil means all defaults.
type Options struct {
	// Dir is the tmpfs for new segments: /dev/shm.
	Dir string

	// Backing is the kind of file for new segments: Auto.
	Backing Backing

	// Prefault maps every page at once, 0.05 to 0.5 µs a page, instead of each
	// at its first touch, which costs ten times that.
	Prefault bool

	// Sparse leaves out the memory of a new Memfd: each page comes with its first touch,
	// and where there is no memory then, the kernel ends a process. FromFile with it
	// accepts a file with holes, if it is Sealed.
	Sparse bool

	// Huge advises huge pages. Whether there are any is up to the system's
	// settings; without them nothing changes.
	Huge bool

	// PeersRead permits only reading to processes with the descriptor of a new segment. A
	// Memfd is sealed against every later write and mapping for writing. Of a Tmpfs the
	// descriptor is one for reading; a process of the same user can open another. Create
	// only.
	PeersRead bool

	// ReadOnly maps for reading only. FromFile only.
	ReadOnly bool

	// Sealed refuses a file that can still be shrunk, see the package's page. FromFile
	// only.
	Sealed bool
}

func (o *Options) orDefault() Options {
	v := *cmp.Or(o, &Options{})
	v.Dir = cmp.Or(v.Dir, defaultDir)
	return v
}

// Segment is a mapped file of shared memory. Its methods may be called concurrently;
// Close only when the bytes are no longer used.
type Segment struct {
	id      uint64
	file    *os.File
	mem     mmap.MMap
	backing Backing
	once    sync.Once
}

// Create makes a segment of size bytes, rounded up to whole pages, filled with
// zeros. All of its memory is taken at once: ErrNoSpace when there is not enough. That of
// a Sparse or a Private one comes later.
func Create(size int64, o *Options) (*Segment, error) {
	opt := o.orDefault()
	if size <= 0 || size > MaxSegment {
		return nil, fmt.Errorf("shm: segment of %d bytes, expected 1 to %d", size, int64(MaxSegment))
	}
	size = roundUp(size, int64(os.Getpagesize()))
	id := newID()
	switch opt.Backing {
	case Reserved:
		return anonymous(id, size, Reserved, unix.PROT_NONE)
	case Private:
		return anonymous(id, size, Private, unix.PROT_READ|unix.PROT_WRITE)
	}
	f, kind, err := newBacking(size, &opt)
	if err != nil {
		return nil, err
	}
	s, err := mapFile(id, f, size, &opt)
	if err != nil {
		f.Close()
		return nil, err
	}
	s.backing = kind
	if opt.PeersRead {
		if s.file, err = writeProtect(f, kind); err != nil {
			_ = s.Close()
			return nil, err
		}
	}
	return s, nil
}

// anonymous returns a segment without a file, whose memory is taken page by page, if it
// may be touched at all.
func anonymous(id uint64, size int64, kind Backing, prot int) (*Segment, error) {
	mem, err := unix.Mmap(-1, 0, int(size), prot, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("%v segment: %w", kind, unmapped(limits.Machine{}, size, err))
	}
	if kind == Private {
		// Where huge pages are for all memory, the first touch would take 2 MiB. A kernel
		// that has none refuses, and that is as good.
		_ = unix.Madvise(mem, unix.MADV_NOHUGEPAGE)
	}
	return &Segment{id: id, mem: mem, backing: kind}, nil
}

// FromFile maps size bytes of a segment that a peer created and passed here as a
// descriptor, under the id that the peer gave it. The file must be regular, at
// least that long and without holes: ErrBadFile. The segment owns the file from
// then on; on error it is still the caller's.
func FromFile(id uint64, f *os.File, size int64, o *Options) (*Segment, error) {
	opt := o.orDefault()
	if size <= 0 || size > MaxSegment {
		return nil, fmt.Errorf("%w: size %d, expected 1 to %d", ErrBadFile, size, int64(MaxSegment))
	}
	backing := Tmpfs
	if seals, err := unix.FcntlInt(f.Fd(), unix.F_GET_SEALS, 0); err == nil && seals&unix.F_SEAL_SHRINK != 0 {
		backing = Memfd
	}
	// Before fstat, which a file system of the peer's may answer late or never.
	if opt.Sealed && backing != Memfd {
		return nil, fmt.Errorf("%w: not sealed against shrinking, expected a regular file in memory that is", ErrBadFile)
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return nil, os.NewSyscallError("fstat", err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, fmt.Errorf("%w: mode %#o, expected a regular file", ErrBadFile, st.Mode)
	}
	if st.Size < size {
		return nil, fmt.Errorf("%w: file of %d bytes, expected %d", ErrBadFile, st.Size, size)
	}
	// A hole would be filled by our first touch, from memory that may not be
	// there. st_blocks counts units of 512 bytes whatever the file system.
	if st.Blocks*512 < size && !(opt.Sparse && opt.Sealed) {
		return nil, fmt.Errorf("%w: %d bytes allocated, expected %d", ErrBadFile, st.Blocks*512, size)
	}
	if opt.Sealed {
		// A page that the peer punched out again is made anew at our next touch, for
		// which only memory can be lacking. A memfd of huge pages can lack those.
		var fs unix.Statfs_t
		if err := unix.Fstatfs(int(f.Fd()), &fs); err != nil {
			return nil, os.NewSyscallError("fstatfs", err)
		}
		if fs.Type != unix.TMPFS_MAGIC {
			return nil, fmt.Errorf("%w: file system %#x, expected one of memory in ordinary pages", ErrBadFile, fs.Type)
		}
	}
	s, err := mapFile(id, f, size, &opt)
	if err != nil {
		return nil, err
	}
	s.backing = backing
	return s, nil
}

// unmapped is the error of mapping so many bytes: ErrNoSpace with what bounds this
// process, if something does.
func unmapped(m limits.Machine, size int64, err error) error {
	err = sizeError("mmap", size, err)
	if full := m.Mappings(); errors.Is(err, unix.ENOMEM) && full != "" {
		err = fmt.Errorf("%w: %s", err, full)
	}
	return err
}

// mapFile maps through mmap-go, which offers MAP_SHARED, readable or also writable.
// Populating and advice come from x/sys, because mmap-go silently ignores flags that it
// does not know. It also wants an *os.File and calls its Fd, which makes the descriptor
// blocking; for files in memory that changes nothing.
func mapFile(id uint64, f *os.File, size int64, o *Options) (*Segment, error) {
	prot := mmap.RDWR
	if o.ReadOnly {
		prot = mmap.RDONLY
	}
	mem, err := mmap.MapRegion(f, int(size), prot, 0, 0)
	if err != nil {
		return nil, unmapped(limits.Machine{}, size, err)
	}
	s := &Segment{id: id, file: f, mem: mem}
	if o.Huge {
		// Advice that is not taken is not an error.
		_ = unix.Madvise(mem, unix.MADV_HUGEPAGE)
	}
	if o.Prefault {
		advice := unix.MADV_POPULATE_WRITE
		if o.ReadOnly {
			advice = unix.MADV_POPULATE_READ
		}
		if err := populate(mem, advice); err != nil {
			_ = mem.Unmap()
			return nil, err
		}
	}
	return s, nil
}

// populate maps the pages. A kernel before 5.14 does not know how (EINVAL); then
// they come one by one, as they would have without.
func populate(mem []byte, advice int) error {
	for {
		switch err := unix.Madvise(mem, advice); err {
		case nil, unix.EINVAL:
			return nil
		case unix.EINTR, unix.EAGAIN:
		case unix.ENOMEM, unix.EFAULT:
			return fmt.Errorf("%w: populating %d bytes: %w", ErrNoSpace, len(mem), err)
		default:
			return os.NewSyscallError("madvise", err)
		}
	}
}

// ID is the random number that names the segment in handles.
func (s *Segment) ID() uint64 { return s.id }

// Bytes is the whole memory, until Close.
func (s *Segment) Bytes() []byte { return s.mem }

// Size is the length of Bytes.
func (s *Segment) Size() int64 { return int64(len(s.mem)) }

// File is the descriptor to pass to a peer, nil for a Reserved or a Private segment. It
// stays the segment's.
func (s *Segment) File() *os.File { return s.file }

// Backing says what kind of file it is, Tmpfs or Memfd, or that it is Reserved or
// Private.
func (s *Segment) Backing() Backing { return s.backing }

// Close unmaps the memory and closes the file. Touching the bytes afterwards ends
// the process. Further calls do nothing.
func (s *Segment) Close() error {
	var err error
	s.once.Do(func() {
		if err = s.mem.Unmap(); s.file != nil {
			err = errors.Join(err, s.file.Close())
		}
	})
	return err
}

// newID returns a random number that is not 0, which is no segment's.
func newID() (id uint64) {
	for id == 0 {
		var b [8]byte
		rand.Read(b[:]) // never fails
		id = binary.LittleEndian.Uint64(b[:])
	}
	return id
}

func roundUp(n, to int64) int64 { return (n + to - 1) / to * to }
