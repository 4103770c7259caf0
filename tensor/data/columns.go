package data

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// maxTexts bounds the texts of a column. Numbers up to it are exact in float32.
const maxTexts = 1 << 24

// texts numbers distinct texts in the order in which they come.
type texts struct {
	index map[string]int
	all   []string
	fixed bool // to these: others have no number
}

func textsOf(all []string) *texts {
	t := &texts{index: make(map[string]int), fixed: all != nil}
	for i, s := range all {
		t.index[s] = i
	}
	t.all = all
	return t
}

// number returns the number of s, or false if it has none.
func (t *texts) number(s string) (int, bool) {
	i, ok := t.index[s]
	if !ok && !t.fixed {
		s = strings.Clone(s) // not all of the record
		i, ok = len(t.all), true
		t.index[s] = i
		t.all = append(t.all, s)
	}
	return i, ok
}

// ordered returns the texts in the order of their values if all are whole numbers, else
// of their bytes, and where each one was. A fixed order stays.
func (t *texts) ordered() (all []string, to []int) {
	all = slices.Clone(t.all)
	if !t.fixed {
		slices.Sort(all)
		numbers := make(map[string]int64, len(all))
		for _, s := range all {
			if n, err := strconv.ParseInt(s, 10, 64); err == nil {
				numbers[s] = n
			}
		}
		if len(numbers) == len(all) {
			slices.SortStableFunc(all, func(a, b string) int { return cmp.Compare(numbers[a], numbers[b]) })
		}
	}
	to = make([]int, len(all))
	for i, s := range all {
		to[t.index[s]] = i
	}
	return all, to
}

// kind is what the fields of a column are.
type kind int

const (
	numbers    kind = iota
	categories      // texts with numbers
	undecided       // as its first field that is not empty: AllTexts
	classes         // the label's
	target          // the label's numbers
)

// column is a column of a file.
type column struct {
	name string
	to   int // its column of X, unless it is the label
	kind kind

	texts *texts // of categories and classes

	// With AllTexts, the first field that is not empty decides the kind.
	open  bool
	first string
	line  int

	gaps    []int // rows in which it is empty
	gapLine int   // line of the first
}

// tableReader makes a table of records.
type tableReader struct {
	Table
	o       TableOptions
	file    string
	columns []column
}

// reader returns a table without rows for the file's columns of these names.
func (o *TableOptions) reader(file string, names []string) (*tableReader, error) {
	t := &tableReader{o: *o, file: file, columns: make([]column, len(names))}
	if like := o.Like; like != nil {
		n := len(like.Names)
		if o.Categories != nil || o.Fill != nil {
			return nil, fmt.Errorf("%w: options with Like and Categories or Fill, expected one of them: Like has its own", ErrMismatch)
		}
		if n == 0 || like.Categories != nil && len(like.Categories) != n || like.Fill != nil && len(like.Fill) != n {
			return nil, fmt.Errorf("%w: a table as Like of %d columns with %d lists of categories and %d fills, expected one for each column, or none",
				ErrMismatch, n, len(like.Categories), len(like.Fill))
		}
		t.o.Label = cmp.Or(o.Label, like.Label)
		t.o.NoLabel = o.NoLabel || t.o.Label == ""
		t.o.Regression = o.Regression || like.Target != nil
	}
	label, err := t.o.label(file, names)
	if err != nil {
		return nil, err
	}
	for c, name := range names {
		col := &t.columns[c]
		col.name = name
		switch {
		case c == label:
			t.Label, col.kind = name, classes
			if t.o.Regression {
				col.kind = target
			} else if col.texts = textsOf(nil); o.Like != nil {
				col.texts = textsOf(o.Like.Classes)
			}
			continue
		case slices.Contains(o.Categories, name):
			col.kind, col.texts = categories, textsOf(nil)
		case slices.Contains(o.Categories, AllTexts):
			col.kind, col.open = undecided, true
		}
		col.to = len(t.Names)
		t.Names = append(t.Names, name)
	}
	for _, name := range o.Categories {
		switch {
		case name == AllTexts:
		case label >= 0 && name == names[label]:
			return nil, fmt.Errorf("%w: %s: column %.40q is the label, expected other columns as categories: its texts are classes", ErrFormat, file, name)
		case !slices.Contains(names, name):
			return nil, fmt.Errorf("%w: %s has no column %.40q of categories, expected some of %.200q", ErrFormat, file, name, t.Names)
		}
	}
	if o.Like != nil {
		return t, t.like()
	}
	return t, nil
}

// like gives the columns the form of the table in the options.
func (t *tableReader) like() error {
	like := t.o.Like
	for _, name := range like.Names {
		if !slices.Contains(t.Names, name) {
			return fmt.Errorf("%w: %s has the columns %.400q and lacks %.40q, expected %.400q", ErrFormat, t.file, t.Names, name, like.Names)
		}
	}
	taken := map[string]bool{}
	same := slices.Equal(t.Names, like.Names) // then names may be there twice
	for c := range t.columns {
		col := &t.columns[c]
		if col.kind == classes || col.kind == target {
			continue
		}
		if !same {
			if col.to = slices.Index(like.Names, col.name); col.to < 0 {
				return fmt.Errorf("%w: %s has a column %.40q, expected only %.400q", ErrFormat, t.file, col.name, like.Names)
			}
			if taken[col.name] {
				return fmt.Errorf("%w: %s has two columns %.40q, expected one of each of %.400q", ErrFormat, t.file, col.name, like.Names)
			}
			taken[col.name] = true
		}
		if like.Categories != nil && like.Categories[col.to] != nil {
			col.kind, col.texts = categories, textsOf(like.Categories[col.to])
		}
	}
	t.Names = like.Names
	return nil
}

// label returns which of the columns is the label, -1 for none.
func (o *TableOptions) label(file string, names []string) (int, error) {
	if o.NoLabel {
		return -1, nil
	}
	label := len(names) - 1
	if o.Label != "" {
		if label = slices.Index(names, o.Label); label < 0 {
			return 0, fmt.Errorf("%w: %s has no column %.40q for the label, expected one of %.200q, or TableOptions.NoLabel", ErrFormat, file, o.Label, names)
		}
	}
	if len(names) < 2 {
		return 0, fmt.Errorf("%w: %s has 1 column, %.40q, expected a label and at least 1 other, separated by %q", ErrFormat, file, names[0], cmp.Or(o.Comma, ','))
	}
	return label, nil
}

// take puts a field into the row that was appended last. text is field without spaces.
func (t *tableReader) take(c *column, text, field string, line int) error {
	wrong := func(format string, args ...any) error {
		return &FieldError{File: t.file, Line: line, Column: c.name, Value: strings.Clone(field), Want: fmt.Sprintf(format, args...)}
	}
	if text == "" && (c.kind == undecided || c.kind == numbers && t.fills()) {
		if len(c.gaps) == 0 {
			c.gapLine = line
		}
		c.gaps = append(c.gaps, t.Rows)
		return nil
	}
	x, isNumber := 0.0, false
	if c.texts == nil || c.open {
		var err error
		x, err = strconv.ParseFloat(text, 32)
		isNumber = err == nil && !math.IsNaN(x) && !math.IsInf(x, 0)
	}
	if c.kind == undecided {
		c.first, c.line = strings.Clone(text), line
		if err := t.decide(c, isNumber); err != nil {
			return err
		}
	}
	at := t.Rows*len(t.Names) + c.to
	switch c.kind {
	case classes, categories:
		if text == "" && c.kind == classes {
			return fmt.Errorf("%w: %s: line %d has no label: column %.40q is empty; leave the row out, or give it one", ErrFormat, t.file, line, c.name)
		}
		if c.open && isNumber {
			return wrong("a text as in line %d, %.40q; if its numbers are texts too, name the column in TableOptions.Categories", c.line, c.first)
		}
		i, known := c.texts.number(text)
		if !known {
			return wrong("one of %.400q, which are all that TableOptions.Like has", c.texts.all)
		}
		if i >= maxTexts {
			return fmt.Errorf("%w: %s: column %.40q has more than %d texts", ErrTooLarge, t.file, c.name, maxTexts)
		}
		if c.kind == classes {
			t.Class = append(t.Class, int64(i))
		} else {
			t.X[at] = float32(i)
		}
		return nil
	}
	if !isNumber {
		if c.open && text != "" {
			return wrong("a finite number as in line %d, %.40q; if its numbers are texts too, name the column in TableOptions.Categories", c.line, c.first)
		}
		return wrong("a finite number (%s)%s", t.labelled(), c.advice(text))
	}
	if c.kind == target {
		t.Target = append(t.Target, float32(x))
	} else {
		t.X[at] = float32(x)
	}
	return nil
}

// fills reports whether empty fields are filled.
func (t *tableReader) fills() bool {
	return t.o.Fill != nil || t.o.Like != nil && t.o.Like.Fill != nil
}

// decide makes an undecided column one of numbers or of texts.
func (t *tableReader) decide(c *column, number bool) error {
	if number {
		c.kind = numbers
		if len(c.gaps) > 0 && !t.fills() {
			return &FieldError{File: t.file, Line: c.gapLine, Column: c.name, Want: "a finite number (" + t.labelled() + ")" + c.advice("")}
		}
		return nil
	}
	c.kind, c.texts = categories, textsOf(nil)
	for _, row := range c.gaps {
		i, _ := c.texts.number("")
		t.X[row*len(t.Names)+c.to] = float32(i)
	}
	c.gaps = nil
	return nil
}

// finish fills what is empty, orders texts and classes, and returns the table.
func (t *tableReader) finish() (*Table, error) {
	width, out := len(t.Names), t.Table
	if like := t.o.Like; like != nil {
		out.Fill = like.Fill
	} else if t.o.Fill != nil {
		out.Fill = make([]float32, width)
	}
	for i := range t.columns {
		c := &t.columns[i]
		if c.kind == undecided { // empty from end to end
			if err := t.decide(c, true); err != nil {
				return nil, err
			}
		}
		switch c.kind {
		case classes:
			var to []int
			out.Classes, to = c.texts.ordered()
			for row, class := range out.Class {
				out.Class[row] = int64(to[class])
			}
		case categories:
			all, to := c.texts.ordered()
			for row := range out.Rows {
				x := &out.X[row*width+c.to]
				*x = float32(to[int(*x)])
			}
			if out.Categories == nil {
				out.Categories = make([][]string, width)
			}
			out.Categories[c.to] = all
		case numbers:
			if err := t.fill(c, out.Fill); err != nil {
				return nil, err
			}
		}
	}
	if like := t.o.Like; like != nil && like.Scale != nil {
		if err := out.ApplyScale(*like.Scale); err != nil {
			return nil, err
		}
	}
	return &out, nil
}

// fill writes into c's gaps what belongs there, and into fill of a table that is like no
// other.
func (t *tableReader) fill(c *column, fill []float32) error {
	if fill == nil {
		return nil
	}
	width := len(t.Names)
	if t.o.Like == nil {
		others, gaps := make([]float32, 0, t.Rows-len(c.gaps)), c.gaps
		for row := range t.Rows {
			if len(gaps) > 0 && gaps[0] == row {
				gaps = gaps[1:]
			} else {
				others = append(others, t.X[row*width+c.to])
			}
		}
		fill[c.to] = t.o.Fill(others)
		if x := float64(fill[c.to]); math.IsNaN(x) || math.IsInf(x, 0) {
			return fmt.Errorf("%w: %s: column %.40q has %d numbers, of which TableOptions.Fill makes %v, expected a finite number; leave the column out, or fill it with a number",
				ErrFormat, t.file, c.name, len(others), x)
		}
	}
	for _, row := range c.gaps {
		t.X[row*width+c.to] = fill[c.to]
	}
	return nil
}

// advice says what to do about a field that is no number.
func (c *column) advice(field string) string {
	switch {
	case c.kind == target:
		return "; leave the row out, or correct it"
	case field == "":
		return "; fill it, have TableOptions.Fill do it, or leave the row or the column out"
	}
	return "; if the column is one of texts, name it in TableOptions.Categories"
}

// labelled says which column is the label.
func (t *tableReader) labelled() string {
	if t.Label == "" {
		return "there is no label"
	}
	return fmt.Sprintf("the label is column %.40q", t.Label)
}
