package shm

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ringside-go/ringside/shm/limits/limitstest"
)

// used returns the bytes in use on a file system.
func used(t testing.TB, dir string) int64 {
	t.Helper()
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		t.Fatal(err)
	}
	return int64(st.Blocks-st.Bfree) * st.Bsize
}

// openFiles returns the number of descriptors of this process. Later there may be fewer:
// the garbage collector closes the files that earlier tests dropped.
func openFiles(t testing.TB) int {
	t.Helper()
	// Not os.ReadDir: the first os.Open of a process brings two descriptors that the
	// runtime waits with and keeps.
	dir, err := os.Open("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	list, err := dir.Readdirnames(-1)
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// TestSparse wants a file without memory, which a peer takes if it says so and the file
// is sealed.
func TestSparse(t *testing.T) {
	const size = 1 << 20
	s, err := Create(size, &Options{Backing: Memfd, Sparse: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	blocks := func() int64 {
		t.Helper()
		var st unix.Stat_t
		if err := unix.Fstat(int(s.File().Fd()), &st); err != nil {
			t.Fatal(err)
		}
		return st.Blocks * 512
	}
	if n := blocks(); n != 0 || s.Size() != size {
		t.Errorf("a new file of %d bytes has %d in memory", s.Size(), n)
	}
	for _, o := range []*Options{nil, {Sealed: true}, {Sparse: true}} {
		f := dupFile(t, s.File())
		if _, err := FromFile(1, f, size, o); !errors.Is(err, ErrBadFile) {
			t.Errorf("options %+v: %v, expected ErrBadFile", o, err)
		}
		f.Close()
	}
	peer, err := FromFile(1, dupFile(t, s.File()), size, &Options{Sealed: true, Sparse: true})
	if err != nil {
		t.Fatal(err)
	}
	defer peer.Close()
	peer.Bytes()[size/2] = 1
	if n := blocks(); s.Bytes()[size/2] != 1 || n <= 0 || n >= size {
		t.Errorf("after a store %d bytes are in memory", n)
	}
	if _, err := Create(size, &Options{Backing: Tmpfs, Sparse: true}); err == nil {
		t.Error("a sparse segment of a tmpfs was made")
	}
}

// dupFile is the descriptor as a peer would get it.
func dupFile(t testing.TB, f *os.File) *os.File {
	t.Helper()
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	return os.NewFile(uintptr(fd), "dup")
}

func TestSegmentIsSharedAndNameless(t *testing.T) {
	dir := limitstest.Tmpfs(t, os.Getenv, "4m")
	for _, backing := range []Backing{Tmpfs, Memfd} {
		before := openFiles(t)
		s, err := Create(100_000, &Options{Dir: dir, Backing: backing, Prefault: true, Huge: true})
		if err != nil {
			t.Fatal(err)
		}
		if s.Size()%int64(os.Getpagesize()) != 0 || s.Size() < 100_000 || int64(len(s.Bytes())) != s.Size() || s.ID() == 0 {
			t.Errorf("%v: %d bytes, id %d", backing, s.Size(), s.ID())
		}
		if s.Backing() != backing {
			t.Errorf("backing %v, asked for %v", s.Backing(), backing)
		}
		if names, _ := filepath.Glob(dir + "/*"); len(names) != 0 {
			t.Errorf("%v has a name: %v", backing, names)
		}
		if want := map[Backing]int64{Tmpfs: s.Size(), Memfd: 0}[backing]; used(t, dir) != want {
			t.Errorf("%v: %d bytes of the file system in use, expected %d", backing, used(t, dir), want)
		}
		if i := bytes.IndexFunc(s.Bytes(), func(r rune) bool { return r != 0 }); i >= 0 {
			t.Errorf("%v: byte %d of a new segment is not zero", backing, i)
		}

		peer, err := FromFile(s.ID(), dupFile(t, s.File()), s.Size(), &Options{Prefault: true})
		if err != nil {
			t.Fatal(err)
		}
		if peer.Backing() != backing || peer.ID() != s.ID() {
			t.Errorf("the peer sees %v %x", peer.Backing(), peer.ID())
		}
		reader, err := FromFile(s.ID(), dupFile(t, s.File()), 4096, &Options{ReadOnly: true, Prefault: true})
		if err != nil {
			t.Fatal(err)
		}
		copy(s.Bytes()[90_000:], "hello")
		if got := string(peer.Bytes()[90_000:90_005]); got != "hello" {
			t.Errorf("the peer reads %q", got)
		}
		peer.Bytes()[7] = 7
		if s.Bytes()[7] != 7 || reader.Bytes()[7] != 7 {
			t.Error("what the peer stored is not seen")
		}
		for _, c := range []*Segment{peer, reader, s, s} {
			if err := c.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		}
		if n := used(t, dir); n != 0 {
			t.Errorf("%v: %d bytes left after the last Close", backing, n)
		}
		if n := openFiles(t); n > before {
			t.Errorf("%v: %d descriptors, %d before", backing, n, before)
		}
	}
}

func TestFullTmpfsIsAnError(t *testing.T) {
	dir := limitstest.Tmpfs(t, os.Getenv, "1m")
	o := &Options{Dir: dir, Backing: Tmpfs}
	for _, size := range []int64{1<<20 + 1, 64 << 20} {
		if _, err := Create(size, o); !errors.Is(err, ErrNoSpace) || !strings.Contains(err.Error(), dir) {
			t.Errorf("%d bytes on 1 MiB: %v, expected ErrNoSpace naming %s", size, err, dir)
		}
	}
	first, err := Create(700<<10, o)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	if _, err := Create(700<<10, o); !errors.Is(err, ErrNoSpace) {
		t.Errorf("the second half and more: %v, expected ErrNoSpace", err)
	}
	for i := range first.Bytes() {
		first.Bytes()[i] = 1 // all of it is there
	}
	// Auto goes elsewhere, and what it gets is whole too.
	o.Backing = Auto
	second, err := Create(4<<20, o)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	if second.Backing() != Memfd {
		t.Errorf("auto on a full tmpfs: %v", second.Backing())
	}
	for i := range second.Bytes() {
		second.Bytes()[i] = 1
	}
}

// TestFallocateFails fills the file system behind statfs's back, so that it is
// fallocate that finds out.
func TestFallocateFails(t *testing.T) {
	dir := limitstest.Tmpfs(t, os.Getenv, "1m")
	f, err := os.CreateTemp(dir, "")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := allocate(f, 2<<20); !errors.Is(err, ErrNoSpace) || !errors.Is(err, unix.ENOSPC) {
		t.Errorf("allocate: %v, expected ErrNoSpace and ENOSPC", err)
	}
}

// TestFileSizeLimit makes segments larger than a file of this process may be: the error
// has the limit and how to raise it.
func TestFileSizeLimit(t *testing.T) {
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 1 << 20, Max: before.Max}); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &before); err != nil {
			t.Error(err)
		}
	}()
	for _, o := range []Options{{Backing: Memfd}, {Backing: Memfd, Sparse: true}, {Backing: Tmpfs, Dir: defaultDir}} {
		const says = "a file of this process may have 1048576 bytes: raise it by ulimit -f"
		if _, err := Create(4<<20, &o); !errors.Is(err, ErrNoSpace) || !strings.Contains(err.Error(), says) {
			t.Errorf("4 MiB with %+v: %v, expected ErrNoSpace and %q", o, err, says)
		}
		s, err := Create(1<<20, &o)
		if err != nil {
			t.Errorf("1 MiB with %+v: %v", o, err)
			continue
		}
		s.Close()
	}
}

func TestNoTmpfs(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	if _, err := Create(4096, &Options{Dir: missing, Backing: Tmpfs}); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), missing) {
		t.Errorf("tmpfs in a missing directory: %v", err)
	}
	s, err := Create(4096, &Options{Dir: missing})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if s.Backing() != Memfd {
		t.Errorf("auto without a tmpfs: %v", s.Backing())
	}
}

func TestMoreThanTheMachineHas(t *testing.T) {
	for _, backing := range []Backing{Auto, Memfd} {
		if _, err := Create(MaxSegment, &Options{Backing: backing}); !errors.Is(err, ErrNoSpace) {
			t.Errorf("%v of 1 TiB: %v, expected ErrNoSpace", backing, err)
		}
	}
	for _, size := range []int64{0, -1, MaxSegment + 1} {
		if _, err := Create(size, nil); err == nil {
			t.Errorf("a segment of %d bytes was made", size)
		}
	}
}

func TestMemfdIsSealed(t *testing.T) {
	s, err := Create(1<<20, &Options{Backing: Memfd})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, size := range []int64{0, 4096, 2 << 20} {
		if err := s.File().Truncate(size); !errors.Is(err, unix.EPERM) {
			t.Errorf("truncating to %d: %v, expected EPERM", size, err)
		}
	}
}

func TestFromFileChecks(t *testing.T) {
	dir := limitstest.Tmpfs(t, os.Getenv, "4m")
	file := func(size, allocated int64) *os.File {
		f, err := os.CreateTemp(dir, "")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		if err := f.Truncate(size); err != nil {
			t.Fatal(err)
		}
		if allocated > 0 {
			if err := allocate(f, allocated); err != nil {
				t.Fatal(err)
			}
		}
		return f
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	for _, tc := range []struct {
		name string
		f    *os.File
		size int64
		o    *Options
		want string
	}{
		{"a pipe", r, 4096, nil, "regular file"},
		{"a device", null, 4096, nil, "regular file"},
		{"a short file", file(4096, 4096), 8192, nil, "4096 bytes, expected 8192"},
		{"a file with holes", file(1<<20, 0), 1 << 20, nil, "0 bytes allocated"},
		{"a file with a hole at its end", file(1<<20, 4096), 1 << 20, nil, "4096 bytes allocated"},
		{"no size", file(4096, 4096), 0, nil, "size 0"},
		{"a negative size", file(4096, 4096), -1, nil, "size -1"},
		{"a huge size", file(4096, 4096), 1 << 62, nil, "size 4611686018427387904"},
		{"a file that can shrink", file(4096, 4096), 4096, &Options{Sealed: true}, "not sealed"},
	} {
		s, err := FromFile(1, tc.f, tc.size, tc.o)
		if !errors.Is(err, ErrBadFile) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, %v, expected ErrBadFile with %q", tc.name, s, err, tc.want)
		}
	}
}
