package local_test

import (
	"io"
	"log/slog"
	"net"
	"testing"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/ipctest"
	"github.com/ringside-go/ringside/ipc/local"
)

// TestStrangersDoNotFillTheLog: neither those that send no Hello, nor those that do and
// break the protocol afterwards.
func TestStrangersDoNotFillTheLog(t *testing.T) {
	ctx := testContext(t)
	begin := func(log *slog.Logger, attack func(l ipc.Listener, path string)) (provoke func(int), end func()) {
		l, path := listen(t, &ipc.Options{Logger: log})
		return func(int) { attack(l, path) }, func() {
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	t.Run("no hello", func(t *testing.T) {
		ipctest.Warnings(t, func(log *slog.Logger) (func(int), func()) {
			return begin(log, func(_ ipc.Listener, path string) {
				c, err := net.Dial("unixpacket", path)
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				if _, err := io.WriteString(c, "GET / HTTP/1.1\r\n\r\n"); err != nil {
					t.Fatal(err)
				}
				_, _ = io.Copy(io.Discard, c)
			})
		})
	})
	t.Run("after the hello", func(t *testing.T) {
		ipctest.Warnings(t, func(log *slog.Logger) (func(int), func()) {
			return begin(log, func(l ipc.Listener, path string) {
				a, err := local.New().Dial(ctx, path, nil)
				if err != nil {
					t.Fatal(err)
				}
				defer a.Close()
				b := accept(t, ctx, l)
				if _, err := local.Socket(a).Write([]byte("hello there")); err != nil {
					t.Fatal(err)
				}
				if m, err := b.Recv(ctx); err == nil {
					t.Errorf("received %q", m.Body)
				}
				b.Close()
			})
		})
	})
}
