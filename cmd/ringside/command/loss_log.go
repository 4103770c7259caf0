package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/ringside-go/ringside/cmd/ringside/events"
	"github.com/ringside-go/ringside/shm/limits"
	"github.com/ringside-go/ringside/shm/plain"
	"github.com/ringside-go/ringside/tensor/safetensors"
	"github.com/ringside-go/ringside/tensor/train"
)

// The files that --log-dir gets: a JSON object a line, and the losses again for
// spreadsheets. Those of TensorBoard are named by package events.
const (
	lossLogName = "losses.jsonl"
	lossCSVName = "losses.csv"
)

// lossColumns is the first line of losses.csv.
const lossColumns = "time,step,loss,lr,items_per_second\n"

// lossLine is a line of losses.jsonl: a loss that was read, or what the run came to in
// the end.
type lossLine struct {
	Time  time.Time `json:"time"`
	Step  int       `json:"step"`
	Steps int       `json:"steps"`
	Loss  *float64  `json:"loss,omitempty"`
	LR    float64   `json:"lr,omitempty"`
	Rate  float64   `json:"items_per_second,omitempty"`

	HeldOut     float64  `json:"held_out_loss,omitempty"`
	Accuracy    *float64 `json:"accuracy,omitempty"`
	BitsPerByte *float64 `json:"bits_per_byte,omitempty"`
	Stopped     bool     `json:"stopped,omitempty"`
	Error       string   `json:"error,omitempty"`
}

// lossLog writes losses to files while a model is trained. A nil lossLog writes nothing.
// The files are made when the first line is written: a run that fails earlier leaves
// none.
type lossLog struct {
	dir   string
	lines *os.File // nil before the first
	table *os.File
	file  *os.File // of events
	board *events.Writer
	err   error // the first
}

// newLossLog returns the log in dir, which it makes. A log that is there is continued if
// the run is resumed.
func newLossLog(dir string, resumed bool) (*lossLog, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("--log-dir: %w", plain.Path(limits.Written(dir, err)))
	}
	path := filepath.Join(dir, lossLogName)
	if _, err := os.Stat(path); err == nil && !resumed {
		return nil, usagef("--log-dir %s: %s is another run's; name another folder, or go on with that run by --resume", plain.Name(dir), plain.Name(path))
	}
	for _, name := range []string{lossLogName, lossCSVName} { // before the first steps
		if err := safetensors.Writable(filepath.Join(dir, name)); err != nil {
			return nil, fmt.Errorf("--log-dir: %w", plain.Path(err))
		}
	}
	return &lossLog{dir: dir}, nil
}

// begin makes the files.
func (l *lossLog) begin(now time.Time) error {
	open := func(name string) (*os.File, error) {
		return os.OpenFile(filepath.Join(l.dir, name), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	}
	var err error
	if l.lines, err = open(lossLogName); err != nil {
		return err
	}
	if l.table, err = open(lossCSVName); err != nil {
		return err
	}
	st, err := l.table.Stat()
	if err == nil && st.Size() == 0 {
		_, err = l.table.WriteString(lossColumns)
	}
	if err != nil {
		return err
	}
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	if l.file, err = open(events.FileName(now, host, os.Getpid())); err != nil {
		return err
	}
	l.board, err = events.NewWriter(l.file, now)
	return err
}

// write writes a line, and calls more for the other files.
func (l *lossLog) write(line *lossLine, more func(now time.Time) error) {
	if l == nil || l.err != nil {
		return
	}
	now := time.Now()
	if l.lines == nil {
		if l.err = l.begin(now); l.err != nil {
			return
		}
	}
	line.Time = now.UTC()
	if l.err = json.NewEncoder(l.lines).Encode(line); l.err == nil {
		l.err = more(now)
	}
}

// show writes a loss that was read.
func (l *lossLog) show(p train.Progress) {
	l.write(&lossLine{Step: p.Step, Steps: p.Steps, Loss: &p.Loss, LR: p.LR, Rate: p.Rate}, func(now time.Time) error {
		number := func(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }
		_, err := fmt.Fprintf(l.table, "%s,%d,%s,%s,%s\n", now.UTC().Format(time.RFC3339Nano), p.Step, number(p.Loss), number(p.LR), number(p.Rate))
		if err != nil {
			return err
		}
		return l.board.Scalars(now, p.Step, events.Scalar{Tag: "loss", Value: p.Loss}, events.Scalar{Tag: "learning rate", Value: p.LR},
			events.Scalar{Tag: p.Unit + " a second", Value: p.Rate})
	})
}

// sampled writes a text that the language model made, to the file for TensorBoard alone.
// Before the first loss it does nothing, since there is no file yet.
func (l *lossLog) sampled(step int, text string) {
	if l != nil && l.err == nil && l.board != nil {
		l.err = l.text(time.Now(), step, text)
	}
}

// text writes a sample. Four spaces make it a block of code, in which Markdown changes
// nothing.
func (l *lossLog) text(now time.Time, step int, sample string) error {
	return l.board.Text(now, step, "sample", "    "+strings.ReplaceAll(printable(sample), "\n", "\n    "))
}

// end writes what the run came to, or the error that ended it, and closes the files.
func (l *lossLog) end(s *train.Summary, ended error) error {
	if l == nil || l.lines == nil && l.err == nil {
		return nil
	}
	last := lossLine{Step: s.Steps, Steps: s.Planned, HeldOut: s.HeldOut, Accuracy: s.Accuracy, BitsPerByte: s.BitsPerByte, Stopped: s.Stopped}
	if ended != nil {
		last.Error = ended.Error()
	}
	l.write(&last, func(now time.Time) error {
		var scalars []events.Scalar
		if s.HeldOut != 0 {
			scalars = append(scalars, events.Scalar{Tag: "held-out loss", Value: s.HeldOut})
		}
		if s.Accuracy != nil {
			scalars = append(scalars, events.Scalar{Tag: "accuracy", Value: *s.Accuracy})
		}
		if s.BitsPerByte != nil {
			scalars = append(scalars, events.Scalar{Tag: "bits per byte", Value: *s.BitsPerByte})
		}
		var err error
		if len(scalars) > 0 {
			err = l.board.Scalars(now, s.Steps, scalars...)
		}
		if s.Sample != "" && err == nil {
			err = l.text(now, s.Steps, s.Sample)
		}
		return err
	})
	err := l.err
	for _, f := range []*os.File{l.lines, l.table, l.file} {
		if f != nil {
			err = errors.Join(err, f.Close())
		}
	}
	if err != nil {
		return fmt.Errorf("--log-dir: %w", limits.Written(l.dir, plain.Path(err)))
	}
	return nil
}
