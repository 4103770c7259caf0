package ipc_test

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/ringside-go/ringside/ipc"
)

func TestReadSecret(t *testing.T) {
	good := strings.Repeat("s", 16)
	for what, c := range map[string]struct {
		text string
		mode os.FileMode
		says string // "" for no error
	}{
		"good":      {" " + good + "\n", 0o600, ""},
		"read only": {good, 0o400, ""},
		"short":     {good[1:] + "  \n", 0o600, "15 bytes"},
		"long":      {strings.Repeat("s", 5000), 0o600, "5000 bytes"},
		"of others": {good, 0o640, "mode 0640, expected 0600 (chmod 600"},
	} {
		path := filepath.Join(t.TempDir(), "secret")
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, c.mode); err != nil {
			t.Fatal(err)
		}
		got, err := ipc.ReadSecret(path)
		if c.says == "" && (err != nil || string(got) != good) || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), path)) {
			t.Errorf("%s: %q, %v", what, got, err)
		}
	}
	if _, err := ipc.ReadSecret(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("no error without a file")
	}
}

// TestWeakSecret checks that secrets as they are made at random are not called weak, and
// that those of few characters are.
func TestWeakSecret(t *testing.T) {
	for secret, weak := range map[string]bool{
		"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa":     true,
		"passwordpassword":                             true,
		"1234567812345678":                             true,
		"0101101001011110":                             true,
		"hEhBDPxCXEH1VpbWGxVYzNNz6vwoeh4gcfKHPyNVFO4=": false,
		"7b0de6a1c07f4e2295d3a84f91c6b25e":             false,
		"5F2KQWZ7AMR3TXJ4":                             false,
	} {
		if ipc.WeakSecret([]byte(secret)) != weak {
			t.Errorf("%q: weak is %v, expected %v", secret, !weak, weak)
		}
	}
	for range 1000 {
		if s := rand.Text(); ipc.WeakSecret([]byte(s)) {
			t.Errorf("%q is called weak", s)
		}
	}
}

// TestSecretOfPipe checks that a pipe without a writer is an error at once, and that a
// secret can come through a pipe.
func TestSecretOfPipe(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ipc.ReadSecret(pipe); !errors.Is(err, ipc.ErrBadSecret) {
		t.Errorf("a pipe without a writer: %v, expected ErrBadSecret", err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	const want = "a secret of more than sixteen bytes"
	if _, err := w.WriteString(want); err != nil {
		t.Fatal(err)
	}
	w.Close()
	if got, err := ipc.ReadSecret(fmt.Sprintf("/proc/self/fd/%d", r.Fd())); err != nil || string(got) != want {
		t.Errorf("a pipe that was written to: %q, %v", got, err)
	}
}
