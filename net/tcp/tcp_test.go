package tcp_test

import (
	"testing"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/ipctest"
	"github.com/ringside-go/ringside/ipc/local"
	"github.com/ringside-go/ringside/net/tcp"
)

func TestConformance(t *testing.T) {
	for name, addr := range map[string]string{"IPv4": "127.0.0.1:0", "IPv6": "[::1]:0"} {
		t.Run(name, func(t *testing.T) {
			ipctest.Run(t, func(t *testing.T) ipctest.Fixture {
				return ipctest.Fixture{Transport: tcp.New(), Addr: func() string { return addr }, NoFiles: true, Bulk: true}
			})
		})
	}
}

// TestConformanceLocalWaiter has the conns wait on the waiter that groups use.
func TestConformanceLocalWaiter(t *testing.T) {
	ipctest.Run(t, func(t *testing.T) ipctest.Fixture {
		return ipctest.Fixture{
			Transport: tcp.New(),
			Addr:      func() string { return "127.0.0.1:0" },
			NewWaiter: func() (ipc.Waiter, error) { return local.NewWaiter() },
			NoFiles:   true,
			Bulk:      true,
		}
	})
}
