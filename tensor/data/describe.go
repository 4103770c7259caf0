package data

import (
	"fmt"
	"strings"

	"github.com/ringside-go/ringside/shm/plain"
)

// String describes t in a few lines: its rows and columns, texts, classes with their
// rows, and what may be a slip.
func (t *Table) String() string {
	var b strings.Builder
	s := t.source()
	fmt.Fprintf(&b, "%s of %s, %s", plain.Count(t.Rows, "row"), plain.Count(len(s.names), "column"), plain.Names(s.names))
	for _, note := range t.Notes {
		b.WriteString("\n" + note)
	}
	for c, all := range s.categories {
		if all == nil {
			continue
		}
		if len(all) > t.Rows/2 {
			fmt.Fprintf(&b, "\ncolumn %.40q has %s in %s; leave it out if each row has its own, as a name: rows with other texts are refused", s.names[c], plain.Count(len(all), "text"), plain.Count(t.Rows, "row"))
		} else {
			fmt.Fprintf(&b, "\ncolumn %.40q has %s: %s", s.names[c], plain.Count(len(all), "text"), plain.Names(all))
		}
	}
	switch {
	case len(t.Target) > 0:
		x := t.Target
		scale, _ := ScaleOf(x, 1)
		fmt.Fprintf(&b, "\nlabel %.40q: numbers with a mean of %.6g and a deviation of %.6g", t.Label, scale.Mean[0], scale.Deviation[0])
	case len(t.Classes) > 0:
		fmt.Fprintf(&b, "\nlabel %.40q has %s: ", t.Label, plain.Count(len(t.Classes), "class"))
		t.describeClasses(&b)
	}
	return b.String()
}

// describeClasses writes how many rows the classes have, and those of one row.
func (t *Table) describeClasses(b *strings.Builder) {
	var single []string
	for i, n := range t.ClassCounts() {
		switch {
		case i == plain.MostNames:
			fmt.Fprintf(b, " and %d more", len(t.Classes)-i)
		case i < plain.MostNames:
			if i > 0 {
				b.WriteString(", ")
			}
			fmt.Fprintf(b, "%.40q %d", t.Classes[i], n)
		}
		if n == 1 {
			single = append(single, t.Classes[i])
		}
	}
	switch {
	case len(t.Classes) > t.Rows/2:
		fmt.Fprintf(b, "\nthat is a class for at most two rows each: if the label is a number to predict, read it as one (TableOptions.Regression, or the example ownmodel)")
	case len(single) > 0:
		fmt.Fprintf(b, "\nclasses of 1 row, which may be slips: %s", plain.Names(single))
	}
}
