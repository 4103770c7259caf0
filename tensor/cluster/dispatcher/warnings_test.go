package dispatcher_test

import (
	"errors"
	"log/slog"
	"testing"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/ipctest"
	"github.com/ringside-go/ringside/tensor/cluster/dispatcher"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
)

// TestPeersDoNotFillTheLog: neither those that are refused, nor those that break the
// protocol.
func TestPeersDoNotFillTheLog(t *testing.T) {
	for name, attack := range map[string]func(f *fixture){
		"refused": func(f *fixture) {
			p := f.dial(ipc.RoleWorker, "")
			p.fail(wire.CodeProtocol, "name")
			p.gone()
		},
		"protocol": func(f *fixture) {
			p := f.dial(ipc.RoleClient, "c")
			p.send(wire.KindRun, message(0, 9, 9))
			p.fail(wire.CodeProtocol, "Run before OpenSession")
			p.gone()
		},
	} {
		t.Run(name, func(t *testing.T) {
			ipctest.Warnings(t, func(log *slog.Logger) (func(int), func()) {
				f := start(t, dispatcher.Options{Logger: log})
				return func(int) { attack(f) }, func() { f.shutDown(errors.New("enough")) }
			})
		})
	}
}
