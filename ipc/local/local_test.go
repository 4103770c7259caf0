package local_test

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/ipctest"
	"github.com/ringside-go/ringside/ipc/local"
)

// socketDir is a directory for sockets. t.TempDir has the test's name in it and may be
// longer than a socket's address.
func socketDir(t testing.TB) string {
	dir, err := os.MkdirTemp("", "rs")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func newWaiter() (ipc.Waiter, error) { return local.NewWaiter() }

func TestConformance(t *testing.T) {
	ipctest.Run(t, func(t *testing.T) ipctest.Fixture {
		dir := socketDir(t)
		names := 0
		return ipctest.Fixture{
			Transport: local.New(),
			NewWaiter: newWaiter,
			Addr: func() string {
				names++
				return filepath.Join(dir, strconv.Itoa(names))
			},
		}
	})
}
