package local_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/ringside-go/ringside/ipc/local"
)

// TestSweep kills a listener and sweeps: its files go, those of the living and of others
// stay.
func TestSweep(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	dead := start(t, "listen", filepath.Join(dir, "rank-1"))
	dead.line(t)
	start(t, "listen", filepath.Join(dir, "rank-2")).line(t)
	other := start(t, "listen", filepath.Join(dir, "dispatcher"))
	other.line(t)
	for name, text := range map[string]string{"rank-3.lock": "", "rank-4": "of nobody"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	dead.kill()
	other.kill()
	for want := 1; want >= 0; want-- { // the second sweep finds nothing
		if n, err := local.Sweep(dir, slog.New(slog.DiscardHandler), "rank-"); n != want || err != nil {
			t.Fatalf("Sweep removed %d sockets, %v, expected %d", n, err, want)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, e := range entries {
		left = append(left, e.Name())
	}
	if want := []string{"dispatcher", "dispatcher.lock", "rank-2", "rank-2.lock", "rank-3.lock", "rank-4"}; !slices.Equal(left, want) {
		t.Errorf("left are %q, expected %q", left, want)
	}
}

// TestSweepRaces has listeners come while others sweep: none is refused, and none loses
// its socket.
func TestSweepRaces(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	done, swept := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(swept)
		for {
			n, err := local.Sweep(dir, slog.New(slog.DiscardHandler), "rank-")
			if n != 0 || err != nil {
				t.Errorf("Sweep removed %d sockets of the living, %v", n, err)
			}
			select {
			case <-done:
				return
			default:
			}
		}
	}()
	for range 300 {
		path := filepath.Join(dir, "rank-1")
		l, err := local.New().Listen(path, nil)
		if err != nil {
			t.Errorf("Listen beside a sweep: %v", err)
			break
		}
		if _, err := os.Lstat(path); err != nil {
			t.Error(err)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
	close(done)
	<-swept
}
