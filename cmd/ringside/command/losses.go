package command

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/pprof"
	"slices"
	"strings"

	"github.com/ringside-go/ringside/shm/limits"
	"github.com/ringside-go/ringside/shm/plain"
	"github.com/ringside-go/ringside/tensor/train"
)

// profileTo profiles this process until stop.
func profileTo(path string) (stop func() error, err error) {
	f, err := os.Create(path)
	out := &firstError{to: f}
	if err == nil {
		err = pprof.StartCPUProfile(out)
	}
	if err != nil {
		return nil, fmt.Errorf("--cpuprofile: %w", plain.Path(err))
	}
	return func() error {
		pprof.StopCPUProfile()
		if err := errors.Join(out.err, f.Close()); err != nil {
			return fmt.Errorf("--cpuprofile: %w", limits.Written(path, plain.Path(err)))
		}
		return nil
	}, nil
}

// firstError keeps the first error of a writer for a caller that is not told of it.
type firstError struct {
	to  io.Writer
	err error
}

// Write implements io.Writer.
func (w *firstError) Write(b []byte) (int, error) {
	n, err := w.to.Write(b)
	w.err = cmp.Or(w.err, err)
	return n, err
}

// The size of a summary's curve.
const (
	curveColumns = 60
	curveRows    = 6
)

// curve draws losses over their steps as a summary has them; "" for fewer than three.
func curve(points []train.Point) string {
	return plotted(points, min(curveColumns, len(points)), curveRows)
}

// rowOf is the row of a value between the least and the most, which is in row 0.
func rowOf(x, least, most float64, rows int) int {
	if most <= least {
		return 0
	}
	return int((most-x)/(most-least)*float64(rows-1) + 0.5)
}

// plotted draws losses over their steps, each of so many columns the mean of those in it;
// with dots where a column has none; "" for fewer than three losses or columns.
func plotted(points []train.Point, columns, rows int) string {
	if len(points) < 3 || columns < 3 || rows < 2 {
		return ""
	}
	first, last := points[0].Step, points[len(points)-1].Step
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
	grid := make([][]byte, rows)
	for r := range grid {
		grid[r] = []byte(strings.Repeat(" ", columns))
	}
	at := 0 // the last column with a loss, as the first one has
	for c, x := range means {
		if x != x {
			continue
		}
		for between := at + 1; between < c; between++ {
			y := means[at] + (x-means[at])*float64(between-at)/float64(c-at)
			grid[rowOf(y, least, most, rows)][between] = '.'
		}
		grid[rowOf(x, least, most, rows)][c] = '*'
		at = c
	}
	high, low := fmt.Sprintf("%.4g", most), fmt.Sprintf("%.4g", least)
	width := max(len(high), len(low))
	var b strings.Builder
	for r, line := range grid {
		label := map[int]string{0: high, rows - 1: low}[r]
		fmt.Fprintf(&b, "%*s |%s\n", width, label, strings.TrimRight(string(line), " "))
	}
	from, to := fmt.Sprint(first), fmt.Sprint(last)
	fmt.Fprintf(&b, "%*s +%s\n%*s  %s%*s\n", width, "", strings.Repeat("-", columns), width, "", from, max(columns-len(from), len(to)+1), to)
	return b.String()
}
