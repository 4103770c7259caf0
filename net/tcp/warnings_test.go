package tcp

import (
	"io"
	"log/slog"
	"testing"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/ipctest"
)

// TestStrangersDoNotFillTheLog: neither those that speak another protocol, nor those that
// do not know the secret, nor those that break the protocol afterwards.
func TestStrangersDoNotFillTheLog(t *testing.T) {
	ctx := testContext(t)
	for name, attack := range map[string]func(l *listener){
		"alien": func(l *listener) {
			c := rawDial(t, l)
			defer c.Close()
			if _, err := io.WriteString(c, "GET / HTTP/1.1\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, c)
		},
		"secret": func(l *listener) {
			if c, err := New().Dial(ctx, l.Addr(), &ipc.Options{Secret: []byte("guess")}); err == nil {
				c.Close()
				t.Error("a guess got in")
			}
		},
		"frame": func(l *listener) {
			h := newHalf(t, ctx, l)
			_, _ = h.messages.Write(frameBytes(1<<32-1, 1, 0, 0))
			if err := h.conn.data.Wait(ctx, func() bool { return h.conn.Err() != nil }); err != nil {
				t.Fatal(err)
			}
			h.conn.Close()
		},
	} {
		t.Run(name, func(t *testing.T) {
			ipctest.Warnings(t, func(log *slog.Logger) (func(int), func()) {
				o := &ipc.Options{Logger: log}
				if name == "secret" {
					o.Secret = []byte("s")
				}
				l := listen(t, o)
				return func(int) { attack(l) }, func() { l.Close() }
			})
		})
	}
}
