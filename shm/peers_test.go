package shm

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// TestPeersRead: a process with the descriptor of such a segment reads its maker's later
// writes, and can do nothing else to it.
func TestPeersRead(t *testing.T) {
	for _, kind := range []Backing{Memfd, Tmpfs} {
		s, err := Create(1<<20, &Options{Backing: kind, PeersRead: true, Prefault: true})
		if err != nil {
			t.Fatal(err)
		}
		theirs := dupFile(t, s.File())
		fd := int(theirs.Fd())
		for what, err := range map[string]error{
			"write":      func() error { _, err := unix.Pwrite(fd, []byte("x"), 0); return err }(),
			"truncate":   unix.Ftruncate(fd, 0),
			"punch":      unix.Fallocate(fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, 4096),
			"map to use": func() error { _, err := FromFile(1, theirs, s.Size(), nil); return err }(),
		} {
			if err == nil {
				t.Errorf("%v: a peer may %s", kind, what)
			}
		}
		if again, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", fd), os.O_RDWR, 0); err == nil {
			if _, err := again.WriteAt([]byte("x"), 0); err == nil && kind == Memfd {
				t.Error("a descriptor that is opened anew may write")
			}
			again.Close()
		}
		r, err := FromFile(1, theirs, s.Size(), &Options{ReadOnly: true, Sealed: kind == Memfd})
		if err != nil {
			t.Fatalf("%v: %v", kind, err)
		}
		for i := range s.Bytes() {
			s.Bytes()[i] = byte(i)
		}
		if got := r.Bytes()[1000]; got != byte(1000&0xff) {
			t.Errorf("%v: the peer reads %d", kind, got)
		}
		for _, s := range []*Segment{r, s} {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestSealedPunched: a peer that takes pages out of a sealed file has us read zeros.
func TestSealedPunched(t *testing.T) {
	s, err := Create(1<<20, &Options{Backing: Memfd, Prefault: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	s.Bytes()[4096] = 7
	r, err := FromFile(1, dupFile(t, s.File()), s.Size(), &Options{ReadOnly: true, Sealed: true})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := unix.Fallocate(int(s.File().Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, s.Size()); err != nil {
		t.Fatal(err)
	}
	for i, b := range r.Bytes() {
		if b != 0 {
			t.Fatalf("byte %d is %d", i, b)
		}
	}
}

// TestSealedKinds: files of other kinds are not taken for sealed memory.
func TestSealedKinds(t *testing.T) {
	disk, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer disk.Close()
	if _, err := disk.Write(make([]byte, 4096)); err != nil {
		t.Fatal(err)
	}
	open, err := unix.MemfdCreate("open", unix.MFD_ALLOW_SEALING)
	if err != nil {
		t.Fatal(err)
	}
	unsealed := os.NewFile(uintptr(open), "unsealed")
	defer unsealed.Close()
	if _, err := unsealed.Write(make([]byte, 4096)); err != nil {
		t.Fatal(err)
	}
	if _, err := unix.FcntlInt(unsealed.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_GROW); err != nil {
		t.Fatal(err)
	}
	for _, f := range []*os.File{disk, unsealed} {
		if s, err := FromFile(1, f, 4096, &Options{ReadOnly: true, Sealed: true}); !errors.Is(err, ErrBadFile) {
			t.Errorf("%s: %v, %v", f.Name(), s, err)
		}
	}
}
