package apply

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/ringside-go/ringside/gather/codec"
	"github.com/ringside-go/ringside/shm/plain"
	"github.com/ringside-go/ringside/tensor/safetensors"
)

// Errors of File.
var (
	// ErrAlreadyApplied is returned for a window that the model has, or an older one.
	ErrAlreadyApplied = errors.New("apply: the window was applied")

	// ErrJournal is returned when another update of the model was begun and not
	// finished, or the journal cannot be read.
	ErrJournal = errors.New("apply: the journal does not fit")
)

// phase is how far an update came.
type phase string

const (
	updating   phase = "update" // the new files are written
	committing phase = "commit" // they are complete, and renamed
	finished   phase = "done"
)

// journal is the file that says how far an update of a model came.
type journal struct {
	Version int          `json:"version"`
	Phase   phase        `json:"phase"`
	Window  uint64       `json:"window"`
	Result  codec.Digest `json:"result"`
	Config  string       `json:"config"`     // what the update was made with
	Next    int          `json:"next_param"` // parameters below it are written
}

const journalVersion = 1

// readJournal returns nil where there is none.
func readJournal(path string) (*journal, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, plain.Path(err)
	}
	var j journal
	if err := json.Unmarshal(b, &j); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrJournal, plain.Name(path), err)
	}
	if j.Version != journalVersion || j.Next < 0 {
		return nil, fmt.Errorf("%w: %s: version %d, next parameter %d: expected version %d", ErrJournal, plain.Name(path), j.Version, j.Next, journalVersion)
	}
	return &j, nil
}

// write replaces the file, durably.
func (j *journal) write(path string) error {
	j.Version = journalVersion
	b, err := json.Marshal(j)
	if err != nil {
		return err
	}
	if _, err = safetensors.Replace(path, 0o600, func(w io.Writer) error {
		_, err := w.Write(append(b, '\n'))
		return err
	}); err != nil {
		return fmt.Errorf("apply: journal: %w", err)
	}
	return nil
}
