package rendezvous

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
)

// maxVerdict bounds the file of a Verdict, which is read whole.
const maxVerdict = 16 << 10

// maxVerdictText bounds a Verdict's text, which stands in one line of a log.
const maxVerdictText = 1 << 10

// Verdict names the rank that a group's failure began with. A rank leaves it to its
// launcher, in the file that RINGSIDE_VERDICT names. By exit statuses alone the rank that
// failed first can't be told from those that failed because it was gone, which may end
// earlier.
type Verdict struct {
	Rank  int    `json:"rank"`  // at fault
	Stuck bool   `json:"stuck"` // it did not come in time, so that it may never end
	Text  string `json:"text"`  // what happened to it
}

// Write writes v into the file at path, which is made if need be.
func (v Verdict) Write(path string) error {
	v.Text = v.Text[:min(len(v.Text), maxVerdictText)]
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return os.WriteFile(path, b, 0o600)
}

// ReadVerdict reads what a rank of size wrote. It is data from another process, which may
// have died while it wrote: what is not a Verdict is ErrProtocol, and what comes back is
// safe to print.
func ReadVerdict(path string, size int) (Verdict, error) {
	f, err := os.Open(path)
	if err != nil {
		return Verdict{}, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxVerdict+1))
	if err != nil {
		return Verdict{}, err
	}
	var v Verdict
	if err := json.Unmarshal(b, &v); err != nil {
		return Verdict{}, fmt.Errorf("%w: %s: %w", ErrProtocol, path, err)
	}
	if len(b) > maxVerdict || v.Rank < 0 || v.Rank >= size {
		return Verdict{}, fmt.Errorf("%w: %s: rank %d in %d bytes, expected a rank below %d in at most %d", ErrProtocol, path, v.Rank, len(b), size, maxVerdict)
	}
	v.Text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '?'
		}
		return r
	}, v.Text[:min(len(v.Text), maxVerdictText)])
	return v, nil
}
