package rendezvous

import (
	"errors"
	"log/slog"
	"testing"

	"github.com/ringside-go/ringside/ipc/ipctest"
)

// TestCallersDoNotFillTheLog: rank 0 names the first few refused callers, and counts the
// others.
func TestCallersDoNotFillTheLog(t *testing.T) {
	ipctest.Warnings(t, func(log *slog.Logger) (func(int), func()) {
		w := World{Size: 64, MasterAddr: "127.0.0.1", MasterPort: freePort(t), Secret: []byte("secret")}
		zero, err := Open(limited(t), w, &Options{Linger: -1, Logger: log})
		if err != nil {
			t.Fatal(err)
		}
		w.Secret = []byte("guess")
		return func(i int) {
			mine := w
			mine.Rank = 1 + i
			if s, err := Open(limited(t), mine, nil); !errors.Is(err, ErrSecret) {
				t.Errorf("%v, %v; expected ErrSecret", s, err)
			}
		}, func() { zero.Close() }
	})
}
