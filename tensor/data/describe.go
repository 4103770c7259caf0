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
	fmt.Fprintf(&b, "%s of %s, %s", counted(t.Rows, "row", "rows"), counted(len(s.names), "column", "columns"), plain.Names(s.names))
	for _, note := range t.Notes {
		b.WriteString("\n" + note)
	}
	for c, all := range s.categories {
		if all == nil {
			continue
		}
		if len(all) > t.Rows/2 {
			fmt.Fprintf(&b, "\ncolumn %.40q has %s in %s; leave it out if each row has its own, as a name: rows with other texts are refused", s.names[c], counted(len(all), "text", "texts"), counted(t.Rows, "row", "rows"))
		} else {
			fmt.Fprintf(&b, "\ncolumn %.40q has %s: %s", s.names[c], counted(len(all), "text", "texts"), plain.Names(all))
		}
	}
	switch {
	case len(t.Target) > 0:
		x := t.Target
		scale, _ := ScaleOf(x, 1)
		fmt.Fprintf(&b, "\nlabel %.40q: numbers with a mean of %.6g and a deviation of %.6g", t.Label, scale.Mean[0], scale.Deviation[0])
	case len(t.Classes) > 0:
		fmt.Fprintf(&b, "\nlabel %.40q has %s: ", t.Label, counted(len(t.Classes), "class", "classes"))
		t.describeClasses(&b)
	}
	return b.String()
}

// counted returns the number n with the word for one or for more.
func counted(n int, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, more)
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
