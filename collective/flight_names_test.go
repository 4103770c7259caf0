package collective

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/ringside-go/ringside/shm/plain/plaintest"
)

// TestFlightPlainNames writes last calls below a file, whose name holds control
// characters: the error has it quoted.
func TestFlightPlainNames(t *testing.T) {
	odd := filepath.Join(t.TempDir(), plaintest.Odd)
	if err := os.WriteFile(odd, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, written := WriteFlight(odd, "worker", errors.New("x"), "")
	plaintest.Quoted(t, map[string]error{"written": written, "told": &Error{Err: ErrTimeout, Flight: odd}})
}
