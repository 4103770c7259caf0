package data

import (
	"fmt"

	"github.com/ringside-go/ringside/shm/plain"
)

// maxMarks bounds the texts of a column with TableOptions.OneHot: each is a column.
const maxMarks = 1000

// source is the columns of a file that a table was made of.
type source struct {
	names      []string
	categories [][]string // for each of names; nil for one of numbers
	fill       []float32  // for each of names, or nil
}

// source returns the columns that t was made of: one for those that mark its texts.
func (t *Table) source() *source {
	s := &source{}
	for c, name := range t.Names {
		var all []string
		if t.Categories != nil {
			all = t.Categories[c]
		}
		if t.OneHot != nil && t.OneHot[c].Column != "" {
			mark := t.OneHot[c]
			if last := len(s.names) - 1; c > 0 && t.OneHot[c-1].Column == mark.Column {
				s.categories[last] = append(s.categories[last], mark.Text)
				continue
			}
			name, all = mark.Column, []string{mark.Text}
		}
		s.names, s.categories = append(s.names, name), append(s.categories, all)
		if t.Fill != nil {
			s.fill = append(s.fill, t.Fill[c])
		}
	}
	return s
}

// mark makes of each column of texts of out one for each text.
func (t *tableReader) mark(out *Table) error {
	was, names := *out, []string(nil)
	at := make([]int, len(was.Names)) // first column of each
	out.Fill, out.Categories, out.OneHot = nil, nil, nil
	for c, name := range was.Names {
		at[c] = len(names)
		marks := []OneHot{{}}
		if was.Categories != nil && was.Categories[c] != nil {
			marks = marks[:0]
			for _, text := range was.Categories[c] {
				marks = append(marks, OneHot{name, text})
			}
		}
		if len(marks) > maxMarks {
			return fmt.Errorf("%w: %s: column %.40q has %d texts, expected at most %d, each of which becomes a column; leave it out (%s)",
				ErrTooLarge, t.file, name, len(marks), maxMarks, t.o.say("TableOptions.Without", "-without "+typed(name)))
		}
		for _, m := range marks {
			if m.Column != "" {
				names = append(names, m.Column+"="+m.Text)
			} else {
				names = append(names, name)
			}
			out.OneHot = append(out.OneHot, m)
			if was.Fill != nil {
				out.Fill = append(out.Fill, was.Fill[c])
			}
		}
	}
	if was.Categories == nil {
		out.OneHot = nil
	}
	if was.Rows > maxTable/len(names) {
		return fmt.Errorf("%w: %s has %s of %s, those for texts included, expected at most %d numbers; leave columns of many texts out (%s)",
			ErrTooLarge, t.file, plain.Count(was.Rows, "row"), plain.Count(len(names), "column"), maxTable, t.o.say("TableOptions.Without", "-without a,b"))
	}
	out.Names, out.X = names, make([]float32, was.Rows*len(names))
	for row := range was.Rows {
		from, to := was.X[row*len(was.Names):], out.X[row*len(names):]
		for c := range was.Names {
			if was.Categories != nil && was.Categories[c] != nil {
				to[at[c]+int(from[c])] = 1
			} else {
				to[at[c]] = from[c]
			}
		}
	}
	return nil
}
