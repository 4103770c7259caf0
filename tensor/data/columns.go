package data

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/ringside-go/ringside/shm/plain"
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
	skipped         // left out
)

// column is a column of a file.
type column struct {
	name string
	to   int // its column of X, unless it is the label
	kind kind

	texts *texts // of categories and classes

	open bool // with AllTexts, the first field that is not empty decides the kind

	first string // the first field that is not empty; for numbers and open ones
	line  int    // the line of first

	gaps []gap // for numbers and open ones
}

// gap is a field that counts as empty.
type gap struct {
	row, line int
	text      string
}

// tableReader makes a table of records.
type tableReader struct {
	Table
	o       TableOptions
	file    string
	doubt   string // why the first record was not taken for names of columns
	line    int    // of the first record
	columns []column
}

// reader returns a table without rows for the file's columns of these names. The first
// record is at line. doubt is not empty if that record may have been meant to be the
// names, and says why it was not taken for them.
func (o *TableOptions) reader(file string, names []string, line int, doubt string) (*tableReader, error) {
	t := &tableReader{o: *o, file: file, doubt: doubt, line: line, columns: make([]column, len(names))}
	var like *source
	if o.Like != nil {
		like = t.formed()
	}
	t.Without = t.o.Without
	label, err := t.label(names)
	if err != nil {
		return nil, err
	}
	seen := make(map[string]bool, len(names))
	if label >= 0 {
		seen[names[label]] = true
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
		case slices.Contains(t.o.Without, name) || o.NoLabel && o.Like != nil && name == o.Like.Label:
			col.kind = skipped
			continue
		case seen[name]:
			return nil, fmt.Errorf("%w: %s has two columns %.40q, expected one of each name; rename one of them", ErrFormat, file, name)
		case slices.Contains(o.Categories, name):
			col.kind, col.texts = categories, textsOf(nil)
		case slices.Contains(o.Categories, AllTexts):
			col.kind, col.open = undecided, true
		}
		col.to, seen[name] = len(t.Names), true
		t.Names = append(t.Names, name)
	}
	if err := t.named(names, label); err != nil {
		return nil, err
	}
	if like != nil {
		return t, t.like(like)
	}
	return t, nil
}

// formed copies the form of the table in Like to the options, and returns that table's
// columns.
func (t *tableReader) formed() *source {
	o, like := &t.o, t.o.Like
	o.Without = like.Without
	o.Label = cmp.Or(o.Label, like.Label)
	o.NoLabel = o.NoLabel || o.Label == ""
	o.Regression = o.Regression || like.Target != nil
	return like.source()
}

// named returns an error for a name in the options that no column has. label is the
// number of the label, -1 for none.
func (t *tableReader) named(names []string, label int) error {
	for _, name := range t.o.Categories {
		switch {
		case name == AllTexts:
		case label >= 0 && name == names[label]:
			return fmt.Errorf("%w: %s: column %.40q is the label, expected other columns as categories: its texts are classes", ErrFormat, t.file, name)
		case !slices.Contains(t.Names, name):
			hint := ""
			if t.o.flags && (strings.Contains(name, "/") || strings.HasSuffix(name, ".csv")) {
				hint = "; -categories takes names of columns, and the table comes behind it: -categories a,b " + plain.Name(name)
			}
			return fmt.Errorf("%w: %s has no column %.40q of categories, expected some of %s%s%s", ErrFormat, t.file, name, plain.Names(t.Names), hint, t.doubt)
		}
	}
	if len(t.Names) == 0 && t.o.Like == nil {
		if len(t.o.Without) > 0 && len(names) > 1 {
			beside := ""
			if label >= 0 {
				beside = fmt.Sprintf(" beside the label %.40q", names[label])
			}
			return fmt.Errorf("%w: %s has %s, %s: %s leaves none%s, expected at least 1 that stays",
				ErrFormat, t.file, plain.Count(len(names), "column"), plain.Names(names), t.o.say("TableOptions.Without", "-without"), beside)
		}
		return fmt.Errorf("%w: %s has %s, %s, expected a label and at least 1 other, %s",
			ErrFormat, t.file, plain.Count(len(names), "column"), plain.Names(names), t.o.separated())
	}
	if t.o.Like != nil { // its form may leave out what these rows do not have
		return nil
	}
	for _, name := range t.o.Without {
		if !slices.Contains(names, name) {
			return fmt.Errorf("%w: %s has no column %.40q to leave out, expected some of %s%s", ErrFormat, t.file, name, plain.Names(names), t.doubt)
		}
	}
	return nil
}

// like gives the columns the form of the table in the options. s is that table's columns.
func (t *tableReader) like(s *source) error {
	have, wanted := textsOf(t.Names), textsOf(s.names)
	if len(t.Names) == 0 {
		return fmt.Errorf("%w: %s has no columns but the label and those left out, expected those of the table that was learnt from: %s%s", ErrFormat, t.file, plain.Names(s.names), t.doubt)
	}
	for _, name := range s.names {
		if _, ok := have.number(name); !ok {
			return fmt.Errorf("%w: %s has the columns %s and lacks %.40q, expected those of the table that was learnt from: %s%s", ErrFormat, t.file, plain.Names(t.Names), name, plain.Names(s.names), t.doubt)
		}
	}
	for c := range t.columns {
		col := &t.columns[c]
		if col.kind == classes || col.kind == target || col.kind == skipped {
			continue
		}
		var ok bool
		if col.to, ok = wanted.number(col.name); !ok {
			return fmt.Errorf("%w: %s has a column %.40q, expected only those of the table that was learnt from, %s; remove it", ErrFormat, t.file, col.name, plain.Names(s.names))
		}
		if all := s.categories[col.to]; all != nil {
			col.kind, col.texts = categories, textsOf(all)
		}
	}
	t.Names = s.names
	return nil
}

// label returns which of the columns is the label, -1 for none.
func (t *tableReader) label(names []string) (int, error) {
	o := &t.o
	if o.NoLabel {
		return -1, nil
	}
	label := len(names) - 1
	if o.Label != "" {
		if label = slices.Index(names, o.Label); label < 0 {
			instead := fmt.Sprintf(" (%s)", o.say("TableOptions.Label", "-label"))
			if o.Like != nil {
				instead = fmt.Sprintf("; %s takes rows without it", o.say("TableOptions.NoLabel", "-predict"))
			}
			return 0, fmt.Errorf("%w: %s has no column %.40q for the label, expected one of %s%s%s", ErrFormat, t.file, o.Label, plain.Names(names), instead, t.doubt)
		}
	}
	if slices.Contains(o.Without, names[label]) {
		return 0, fmt.Errorf("%w: %s: column %.40q is the label and is to be left out, expected another label (%s)", ErrFormat, t.file, names[label], o.say("TableOptions.Label", "-label"))
	}
	if len(names) < 2 {
		return 0, fmt.Errorf("%w: %s has 1 column, %.40q, expected a label and at least 1 other, %s", ErrFormat, t.file, names[0], o.separated())
	}
	return label, nil
}

// take puts a field into the row that was appended last. text is field without spaces.
func (t *tableReader) take(c *column, text, field string, line int) error {
	gone := c.kind == undecided || c.kind == numbers && t.fills()
	if c.kind == skipped {
		return nil
	}
	if gone && missing(text) {
		c.gaps = append(c.gaps, gap{t.Rows, line, strings.Clone(text)})
		return nil
	}
	x, err := strconv.ParseFloat(text, 32)
	isNumber := err == nil && !math.IsNaN(x) && !math.IsInf(x, 0)
	if c.kind == undecided {
		if err := t.decide(c, isNumber); err != nil {
			return err
		}
	}
	if c.line == 0 && (isNumber || c.texts != nil) {
		c.first, c.line = strings.Clone(text), line
	}
	switch {
	case c.texts != nil:
		if c.open && isNumber {
			hint := ""
			if how := t.rewritten(c.first, c.texts.all...); how != "" {
				hint = fmt.Sprintf(", which is no number here: write it as %s", how)
			}
			return t.wrong(c, field, line, fmt.Sprintf("a text as in line %d, %.40q%s; correct it, or if its numbers are texts too, name the column: %s",
				c.line, c.first, hint, t.o.say("TableOptions.Categories", "-categories "+typed(c.name))))
		}
		return t.number(c, text, field, line)
	case !isNumber:
		return t.wrong(c, field, line, fmt.Sprintf("a finite number (%s)%s", t.labelled(), t.advice(c, text, err)))
	case c.kind == target:
		t.Target = append(t.Target, float32(x))
	default:
		t.X[t.Rows*len(t.Names)+c.to] = float32(x)
	}
	return nil
}

// wrong returns the error for a field that is not as want says.
func (t *tableReader) wrong(c *column, field string, line int, want string) error {
	if line == t.line || c.line == t.line && c.texts != nil {
		want += t.doubt
	}
	return &FieldError{File: t.file, Line: line, Column: c.name, Value: strings.Clone(field), Want: want}
}

// number takes the number of a text, of a column of texts or of the label.
func (t *tableReader) number(c *column, text, field string, line int) error {
	if text == "" && c.kind == classes {
		other := ""
		if t.o.Label == "" {
			other = "; if it is not the label, " + t.o.say("TableOptions.Label", "-label") + " names that"
		}
		return fmt.Errorf("%w: %s: line %d has no label: column %.40q is empty; leave the row out, or give it one%s", ErrFormat, t.file, line, c.name, other)
	}
	i, known := c.texts.number(text)
	if !known {
		return t.wrong(c, field, line, fmt.Sprintf("one of %s, which are all in the table that was learnt from (%s); correct it, leave the row out, or train again with rows that have it",
			plain.Names(c.texts.all), t.o.say("TableOptions.Like", "that of -load")))
	}
	if i >= maxTexts {
		return fmt.Errorf("%w: %s: column %.40q has more than %d texts", ErrTooLarge, t.file, c.name, maxTexts)
	}
	if c.kind == classes {
		t.Class = append(t.Class, int64(i))
	} else {
		t.X[t.Rows*len(t.Names)+c.to] = float32(i)
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
			g := c.gaps[0]
			return t.wrong(c, g.text, g.line, "a finite number ("+t.labelled()+")"+t.advice(c, g.text, nil))
		}
		return nil
	}
	c.kind, c.texts = categories, textsOf(nil)
	for _, g := range c.gaps {
		i, _ := c.texts.number(g.text)
		t.X[g.row*len(t.Names)+c.to] = float32(i)
	}
	c.gaps = nil
	return nil
}

// finish fills what is empty, orders texts and classes, and returns the table.
func (t *tableReader) finish() (*Table, error) {
	width, out := len(t.Names), t.Table
	if like := t.o.Like; like != nil {
		out.Fill = like.source().fill
	} else if t.o.Fill != nil {
		out.Fill = make([]float32, width)
	}
	for i := range t.columns {
		c := &t.columns[i]
		if c.kind == undecided { // empty from end to end
			if err := t.decide(c, !slices.ContainsFunc(c.gaps, func(g gap) bool { return g.text != "" })); err != nil {
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
			t.noteGrouped(c, &out)
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
	like := t.o.Like
	if t.o.OneHot || like != nil && like.OneHot != nil {
		if err := t.mark(&out); err != nil {
			return nil, err
		}
	}
	if like != nil && like.Scale != nil {
		if err := out.ApplyScale(*like.Scale); err != nil {
			return nil, err
		}
	}
	if like != nil && like.TargetScale != nil && out.Target != nil {
		if err := out.ApplyTargetScale(*like.TargetScale); err != nil {
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
			if len(gaps) > 0 && gaps[0].row == row {
				gaps = gaps[1:]
			} else {
				others = append(others, t.X[row*width+c.to])
			}
		}
		fill[c.to] = t.o.Fill(others)
		if x := float64(fill[c.to]); math.IsNaN(x) || math.IsInf(x, 0) {
			return fmt.Errorf("%w: %s: column %.40q has %s, of which %s makes %v, expected a finite number; leave the column out (%s), or fill it with a number",
				ErrFormat, t.file, c.name, plain.Count(len(others), "number"), t.o.say("TableOptions.Fill", "-fill"), x, t.without(c))
		}
	}
	for _, g := range c.gaps {
		t.X[g.row*width+c.to] = fill[c.to]
	}
	return nil
}

// advice says what to do about a field that is no number. err is that of ParseFloat.
func (t *tableReader) advice(c *column, text string, err error) string {
	o := &t.o
	fill := o.say("TableOptions.Fill", "-fill mean") + " fills it"
	if o.Like != nil {
		fill = fmt.Sprintf("train with %s, which then fills it here too", o.say("TableOptions.Fill", "-fill mean"))
	}
	if how := t.rewritten(text, text); how != "" {
		return fmt.Sprintf("; write it as %s, and others of the column likewise", how)
	}
	switch {
	case c.kind == target && c.line == 0 && !missing(text):
		return "; leave the row out, or correct it; if the label is a class, " + o.say("it needs no TableOptions.Regression", "the example classifier learns it")
	case c.kind == target:
		return "; leave the row out, or correct it"
	case (text == "" || missing(text)) && o.Like != nil:
		return fmt.Sprintf("; correct it, or leave the row out; or %s", fill)
	case text == "" || missing(text):
		return fmt.Sprintf("; correct it, or %s; or leave the row or the column out (%s)", fill, t.without(c))
	case errors.Is(err, strconv.ErrRange) || err == nil:
		return fmt.Sprintf("; the largest is 3.4e38; correct it, or leave it empty: %s; or leave the column out (%s)", fill, t.without(c))
	case o.Like != nil:
		return "; the table that was learnt from has numbers in this column: correct it"
	case c.line > 0:
		return fmt.Sprintf("; line %d has %.40q: correct it, or leave it empty: %s; if the numbers are texts too, name the column: %s",
			c.line, c.first, fill, o.say("TableOptions.Categories", "-categories "+typed(c.name)))
	}
	return fmt.Sprintf("; if the column is one of texts, %s; or leave it out (%s)",
		o.say("name it in TableOptions.Categories, or all of them by AllTexts", fmt.Sprintf("give -categories %s, or -categories '*' for all of them", typed(c.name))), t.without(c))
}

// without says how to leave c out.
func (t *tableReader) without(c *column) string {
	return t.o.say("TableOptions.Without", "-without "+typed(c.name))
}

// labelled says which column is the label.
func (t *tableReader) labelled() string {
	if t.Label == "" {
		return "there is no label"
	}
	return fmt.Sprintf("the label is column %.40q", t.Label)
}
