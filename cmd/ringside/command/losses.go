package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/pprof"
	"slices"
	"strings"
	"time"

	"github.com/ringside-go/ringside/tensor/safetensors"
	"github.com/ringside-go/ringside/tensor/train"
)

// lossLogName is the file that --log-dir gets: one JSON object a line.
const lossLogName = "losses.jsonl"

// lossLine is a line of it: a loss that was read, or what the run came to in the end.
type lossLine struct {
	Time  time.Time `json:"time"`
	Step  int       `json:"step"`
	Steps int       `json:"steps"`
	Loss  *float64  `json:"loss,omitempty"`
	Rate  float64   `json:"items_per_second,omitempty"`

	HeldOut     float64  `json:"held_out_loss,omitempty"`
	Accuracy    *float64 `json:"accuracy,omitempty"`
	BitsPerByte *float64 `json:"bits_per_byte,omitempty"`
	Stopped     bool     `json:"stopped,omitempty"`
	Error       string   `json:"error,omitempty"`
}

// lossLog writes losses while a model is trained; a nil one writes nothing. It makes the
// file with the first line, so that a run that fails before leaves none.
type lossLog struct {
	path string
	f    *os.File
	err  error // the first
}

// newLossLog returns the log in dir, which it makes. A log that is there is continued if
// the run is resumed.
func newLossLog(dir string, resumed bool) (*lossLog, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("--log-dir: %w", err)
	}
	path := filepath.Join(dir, lossLogName)
	if _, err := os.Stat(path); err == nil && !resumed {
		return nil, usagef("--log-dir %s: %s is another run's; name another folder, or go on with that run by --resume", dir, path)
	}
	if err := safetensors.Writable(path); err != nil { // before the first steps
		return nil, fmt.Errorf("--log-dir: %w", err)
	}
	return &lossLog{path: path}, nil
}

func (l *lossLog) write(line *lossLine) {
	if l == nil || l.err != nil {
		return
	}
	if l.f == nil {
		if l.f, l.err = os.OpenFile(l.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644); l.err != nil {
			return
		}
	}
	line.Time = time.Now().UTC()
	l.err = json.NewEncoder(l.f).Encode(line)
}

// show writes a loss that was read.
func (l *lossLog) show(p train.Progress) {
	l.write(&lossLine{Step: p.Step, Steps: p.Steps, Loss: &p.Loss, Rate: p.Rate})
}

// end writes what the run came to, or the error that ended it, and closes the file.
func (l *lossLog) end(s *train.Summary, ended error) error {
	if l == nil || l.f == nil && l.err == nil {
		return nil
	}
	last := lossLine{Step: s.Steps, Steps: s.Planned, HeldOut: s.HeldOut, Accuracy: s.Accuracy, BitsPerByte: s.BitsPerByte, Stopped: s.Stopped}
	if ended != nil {
		last.Error = ended.Error()
	}
	l.write(&last)
	err := l.err
	if l.f != nil {
		err = errors.Join(err, l.f.Close())
	}
	if err != nil {
		return fmt.Errorf("--log-dir: %w", err)
	}
	return nil
}

// profileTo profiles this process until stop.
func profileTo(path string) (stop func(), err error) {
	f, err := os.Create(path)
	if err == nil {
		err = pprof.StartCPUProfile(f)
	}
	if err != nil {
		return nil, fmt.Errorf("--cpuprofile: %w", err)
	}
	return func() {
		pprof.StopCPUProfile()
		f.Close()
	}, nil
}

// The size of a curve.
const (
	curveColumns = 60
	curveRows    = 6
)

// curve draws losses over their steps, each column the mean of those in it; "" for fewer
// than three.
func curve(points []train.Point) string {
	if len(points) < 3 {
		return ""
	}
	first, last := points[0].Step, points[len(points)-1].Step
	columns := min(curveColumns, len(points))
	sums, counts := make([]float64, columns), make([]float64, columns)
	for _, p := range points {
		c := (p.Step - first) * (columns - 1) / max(last-first, 1)
		sums[c] += p.Loss
		counts[c]++
	}
	var means []float64 // NaN of a column without a loss
	for c := range sums {
		means = append(means, sums[c]/counts[c])
	}
	known := slices.DeleteFunc(slices.Clone(means), func(x float64) bool { return x != x })
	least, most := slices.Min(known), slices.Max(known)
	grid := make([][]byte, curveRows)
	for r := range grid {
		grid[r] = []byte(strings.Repeat(" ", columns))
	}
	for c, x := range means {
		if x == x {
			row := 0
			if most > least {
				row = int((most-x)/(most-least)*(curveRows-1) + 0.5)
			}
			grid[row][c] = '*'
		}
	}
	high, low := fmt.Sprintf("%.4g", most), fmt.Sprintf("%.4g", least)
	width := max(len(high), len(low))
	var b strings.Builder
	for r, line := range grid {
		label := map[int]string{0: high, curveRows - 1: low}[r]
		fmt.Fprintf(&b, "%*s |%s\n", width, label, strings.TrimRight(string(line), " "))
	}
	from, to := fmt.Sprint(first), fmt.Sprint(last)
	fmt.Fprintf(&b, "%*s +%s\n%*s  %s%*s\n", width, "", strings.Repeat("-", columns), width, "", from, max(columns-len(from), len(to)+1), to)
	return b.String()
}
