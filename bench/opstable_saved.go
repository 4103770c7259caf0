package bench

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/ringside-go/ringside/collective/isa"
)

// SavedRows is a file of rows of the table of operations, a JSON object a line. A run
// that is interrupted leaves those that it has measured.
type SavedRows struct {
	file *os.File
	cpu  string  // of this machine
	had  []OpRow // when it was opened
}

// OpenRows opens a file of rows, which it makes if there is none. Other lines of a report
// are passed over. The beginning of a row as the last line, which an interrupted run
// left, is cut off.
func OpenRows(path string) (*SavedRows, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("bench: saved rows: %w", err)
	}
	s := &SavedRows{file: f, cpu: ThisMachine().CPU}
	if err := s.read(); err != nil {
		return nil, errors.Join(fmt.Errorf("bench: saved rows in %s: %w", path, err), f.Close())
	}
	return s, nil
}

func (s *SavedRows) read() error {
	text, err := io.ReadAll(s.file)
	if err != nil {
		return err
	}
	whole := bytes.LastIndexByte(text, '\n') + 1
	if last := text[whole:]; !isBeginning(last) {
		return fmt.Errorf("last line %.40q, expected the beginning of one of bench ops-table --resume", last)
	}
	for i, line := range bytes.SplitAfter(text[:whole], []byte("\n")) {
		if len(line) == 0 {
			continue
		}
		var row OpRow
		if err := json.Unmarshal(line, &row); err != nil {
			return fmt.Errorf("line %d: %w, expected those of bench ops-table --resume", i+1, err)
		}
		if row.Row != "" {
			s.had = append(s.had, row)
		}
	}
	if err := s.file.Truncate(int64(whole)); err != nil {
		return err
	}
	_, err = s.file.Seek(int64(whole), io.SeekStart)
	return err
}

// isBeginning reports whether a line that lacks its end may be a row: another file than
// one of rows is not cut off.
func isBeginning(line []byte) bool {
	const row = `{"bench":"ops-table",`
	n := min(len(line), len(row))
	return string(line[:n]) == row[:n]
}

// rows returns those of this machine's CPU, of kernels of a level and of a scale, by
// name; none of nil.
func (s *SavedRows) rows(level isa.Level, scale int) map[string]OpRow {
	out := map[string]OpRow{}
	if s == nil {
		return out
	}
	for _, row := range s.had {
		if row.CPU == s.cpu && row.Level == level.String() && row.scale() == scale && row.Ours > 0 {
			out[row.Row] = row
		}
	}
	return out
}

// add writes a row at the end of the file. nil keeps none.
func (s *SavedRows) add(row OpRow) error {
	if s == nil {
		return nil
	}
	line, err := json.Marshal(row)
	if err != nil {
		return err
	}
	_, err = s.file.Write(append(line, '\n'))
	return err
}

// Close closes the file; nil has none.
func (s *SavedRows) Close() error {
	if s == nil {
		return nil
	}
	return s.file.Close()
}
