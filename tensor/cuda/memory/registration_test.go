package memory_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/ringside-go/ringside/shm"
	"github.com/ringside-go/ringside/tensor/cuda/driver"
)

// TestRegistration registers the kinds of host memory that a worker maps: files of its
// own, sealed and not, and a peer's sealed file, mapped for reading. The stand-in takes
// all. Of a real driver the log says which it takes: nothing relies on more than Open's
// trial.
func TestRegistration(t *testing.T) {
	l := either(t)
	d := l.device(t, 0, small)
	own := must(shm.Create(mib, &shm.Options{Backing: shm.Tmpfs}))
	sealed := must(shm.Create(mib, &shm.Options{Backing: shm.Memfd}))
	toRead := must(shm.Create(mib, &shm.Options{Backing: shm.Memfd, PeersRead: true}))
	peers := must(os.Open(fmt.Sprintf("/proc/self/fd/%d", toRead.File().Fd())))
	foreign := must(shm.FromFile(toRead.ID(), peers, mib, &shm.Options{ReadOnly: true, Sealed: true}))
	for _, c := range []struct {
		name  string
		seg   *shm.Segment
		flags driver.HostFlags
	}{
		{"own, in /dev/shm", own, driver.HostPortable},
		{"own, sealed", sealed, driver.HostPortable},
		{"own, sealed against peers' writes", toRead, driver.HostPortable},
		{"a peer's, mapped for reading", foreign, driver.HostPortable | driver.HostReadOnly},
	} {
		err := d.Do(func() error {
			if err := d.API().HostRegister(c.seg.Bytes(), c.flags); err != nil {
				return err
			}
			return d.API().HostUnregister(c.seg.Bytes())
		})
		t.Logf("%s: %v", c.name, err)
		if err != nil && *given == "" {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	check(t, own.Close(), sealed.Close(), toRead.Close(), foreign.Close(), d.Close())
	l.nothingLeft(t)
}
