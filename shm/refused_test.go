package shm

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ringside-go/ringside/shm/limits/limitstest"
)

// TestMemfdRefused has the system refuse memfd_create: the error says what to allow. Auto
// does without it where the folder has room, and else tells of both.
func TestMemfdRefused(t *testing.T) {
	const allow = ": allow it in the seccomp profile of this container or service"
	for _, errno := range []unix.Errno{unix.ENOSYS, unix.EPERM} {
		limitstest.WithoutMemfd(t, os.Getenv, errno, func() {
			for _, o := range []Options{{Backing: Memfd}, {Backing: Memfd, Sparse: true}, {Backing: Memfd, PeersRead: true}} {
				s, err := Create(4096, &o)
				if err == nil {
					s.Close()
				}
				if !errors.Is(err, errno) || !strings.HasSuffix(err.Error(), "memfd_create: "+errno.Error()+allow) {
					t.Errorf("%+v: %v, expected %v and what to do", o, err, errno)
				}
			}
			if s, err := Create(4096, &Options{Backing: Auto, Dir: t.TempDir()}); err != nil {
				t.Errorf("a folder was there: %v", err)
			} else {
				if s.Backing() != Tmpfs {
					t.Errorf("%v, expected %v", s.Backing(), Tmpfs)
				}
				s.Close()
			}
			_, err := Create(4096, &Options{Backing: Auto, Dir: t.TempDir() + "/absent"})
			if !errors.Is(err, errno) || !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "/absent") || !strings.HasSuffix(err.Error(), allow) {
				t.Errorf("%v, expected the folder, %v and what to do", err, errno)
			}
		})
	}
}

// TestWithoutProc makes segments where /proc is not mounted. Only peers that must not
// write to a file of a folder need it.
func TestWithoutProc(t *testing.T) {
	dir := t.TempDir()
	limitstest.WithoutProc(t, os.Getenv, func() {
		for _, o := range []Options{{Backing: Memfd}, {Backing: Memfd, PeersRead: true}, {Backing: Tmpfs, Dir: dir}, {Backing: Private}} {
			s, err := Create(4096, &o)
			if err != nil {
				t.Errorf("%v: %v", o.Backing, err)
				continue
			}
			s.Bytes()[0] = 1
			if err := s.Close(); err != nil {
				t.Errorf("%v: %v", o.Backing, err)
			}
		}
		_, err := Create(4096, &Options{Backing: Tmpfs, Dir: dir, PeersRead: true})
		if !errors.Is(err, fs.ErrNotExist) || !strings.HasSuffix(err.Error(), ": mount /proc here, or use memory without a folder (memfd)") {
			t.Errorf("%v, expected what to do", err)
		}
	})
}
