package command

import (
	"fmt"
	"os"
	"runtime/pprof"
	"slices"
	"strings"

	"github.com/ringside-go/ringside/tensor/train"
)

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
