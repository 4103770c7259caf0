package plot

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
)

// ErrRun is the error of a file that is no log of a run.
var ErrRun = errors.New("plot: no losses of a training run")

// LogName is the file in the folder of train --log-dir that is read.
const LogName = "losses.jsonl"

// Bounds of a log, against files that are none.
const (
	maxLine   = 1 << 16
	maxPoints = 1 << 24
)

// Run is a training run.
type Run struct {
	Name   string // its folder or file as it was named
	Points []Point
}

// Point is what was known of a step.
type Point struct {
	Step int     `json:"step"`
	Loss float64 `json:"loss"`
	LR   float64 `json:"lr"`
	Rate float64 `json:"items_per_second"`
}

// Read reads the log of a run: a folder that train --log-dir made, or the file in it. Of
// steps that were taken again, the last counts.
func Read(path string) (*Run, error) {
	file := path
	if st, err := os.Stat(path); err == nil && st.IsDir() {
		file = filepath.Join(path, LogName)
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("%w; expected a folder that train --log-dir made, or the %s in it", err, LogName)
	}
	defer f.Close()
	r := &Run{Name: path}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, maxLine)
	for n := 1; lines.Scan(); n++ {
		var line struct {
			Point
			Loss *float64 `json:"loss"` // none in the last line
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			return nil, fmt.Errorf("%w in %s: line %d: %w; expected a file that train --log-dir made", ErrRun, file, n, err)
		}
		p := line.Point
		switch {
		case line.Loss == nil:
			continue
		case p.Step < 0 || math.IsNaN(*line.Loss) || len(r.Points) == maxPoints:
			return nil, fmt.Errorf("%w in %s: line %d: step %d, expected at least 0, and at most %d lines", ErrRun, file, n, p.Step, maxPoints)
		}
		p.Loss = *line.Loss
		again, _ := slices.BinarySearchFunc(r.Points, p.Step, func(p Point, step int) int { return p.Step - step })
		r.Points = append(r.Points[:again], p)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%w in %s: %w", ErrRun, file, err)
	}
	if len(r.Points) == 0 {
		return nil, fmt.Errorf("%w in %s: no line has a loss", ErrRun, file)
	}
	return r, nil
}
