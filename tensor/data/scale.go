package data

import (
	"fmt"
	"math"

	"github.com/ringside-go/ringside/shm/plain"
)

// Scale brings columns of numbers to about the same size. Networks learn poorly from
// columns of very different sizes, such as ages beside incomes. It is for the rows that a
// network learns from, and then also for all others that it sees.
type Scale struct {
	Mean      []float32 // of each column
	Deviation []float32 // standard deviation of each; 1 where all numbers are equal
}

// ScaleOf returns the scale of x, rows of so many columns one after another.
func ScaleOf(x []float32, columns int) (Scale, error) {
	if columns < 1 || len(x) == 0 || len(x)%columns != 0 {
		return Scale{}, fmt.Errorf("data: scale of %s in %s: expected at least 1 column and whole rows",
			plain.Count(len(x), "number"), plain.Count(columns, "column"))
	}
	s, rows := Scale{make([]float32, columns), make([]float32, columns)}, len(x)/columns
	for c := range columns {
		sum := 0.0
		for i := range rows {
			sum += float64(x[i*columns+c])
		}
		mean, squares := sum/float64(rows), 0.0
		for i := range rows {
			d := float64(x[i*columns+c]) - mean
			squares += d * d
		}
		s.Mean[c], s.Deviation[c] = float32(mean), float32(math.Sqrt(squares/float64(rows)))
		if s.Deviation[c] == 0 {
			s.Deviation[c] = 1
		}
	}
	return s, nil
}

// Apply subtracts from each number of x, rows of the scale's columns, the mean of its
// column, and divides by the deviation.
func (s *Scale) Apply(x []float32) error {
	columns := len(s.Mean)
	if columns == 0 || len(s.Deviation) != columns || len(x)%columns != 0 {
		return fmt.Errorf("data: %s and a scale of %s and %s: expected one of each for every column, and whole rows",
			plain.Count(len(x), "number"), plain.Count(columns, "mean"), plain.Count(len(s.Deviation), "deviation"))
	}
	for i := range x {
		x[i] = (x[i] - s.Mean[i%columns]) / s.Deviation[i%columns]
	}
	return nil
}
