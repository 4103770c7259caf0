package data

import (
	"bufio"
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
)

const (
	// maxTable bounds the numbers of a table, which are held in memory.
	maxTable = 1 << 28

	// maxCSV bounds the bytes of a file, which may be one endless record.
	maxCSV = 1 << 30

	// byteOrderMark is what spreadsheets write before a text in UTF-8.
	byteOrderMark = "\uFEFF"
)

// limited returns ErrTooLarge behind the first left bytes of r.
type limited struct {
	r    io.Reader
	left int
}

func (l *limited) Read(b []byte) (int, error) {
	if l.left == 0 {
		return 0, ErrTooLarge
	}
	n, err := l.r.Read(b[:min(len(b), l.left)])
	l.left -= n
	return n, err
}

// Table is rows of numbers with what is to be predicted from them.
type Table struct {
	Names []string  // of the columns of X; c1, c2, ... if the file has none
	Rows  int       // at least 1
	X     []float32 // [Rows, len(Names)]

	Label   string    // the column that is predicted; empty with TableOptions.NoLabel
	Classes []string  // its values in order, unless TableOptions.Regression
	Class   []int64   // [Rows], indices in Classes
	Target  []float32 // [Rows], with TableOptions.Regression
}

// TableOptions configure ReadCSV; nil and the zero value are the defaults.
type TableOptions struct {
	// Label is the name of the column that is predicted; empty is the last one.
	Label string

	// Regression takes the label for a number. Otherwise each of its values is a class.
	// Classes are in the order of their values if all are whole numbers, else of their
	// bytes.
	Regression bool

	// NoLabel takes every column for one of X, as of rows whose label is not known yet.
	NoLabel bool

	// Comma separates fields; 0 is a comma.
	Comma rune
}

// ReadCSV reads a table of comma-separated values (RFC 4180). All columns but the label
// are finite numbers. If the first record has no number in it, it is the names of the
// columns. A byte order mark is skipped. Errors call the file name: ErrFormat,
// ErrTooLarge, or the reader's own error.
func ReadCSV(r io.Reader, name string, opts *TableOptions) (*Table, error) {
	o := *cmp.Or(opts, &TableOptions{})
	text := bufio.NewReader(&limited{r, maxCSV})
	// An error of Peek comes again when the records are read.
	if mark, _ := text.Peek(len(byteOrderMark)); string(mark) == byteOrderMark {
		_, _ = text.Discard(len(mark))
	} else if len(mark) > 1 && (string(mark[:2]) == "\xff\xfe" || string(mark[:2]) == "\xfe\xff") {
		return nil, fmt.Errorf("%w: %s is text in UTF-16, expected UTF-8", ErrFormat, name)
	}
	in := csv.NewReader(text)
	in.ReuseRecord = true
	in.FieldsPerRecord = -1 // counted here
	in.Comma = cmp.Or(o.Comma, ',')
	first, err := in.Read()
	if errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%w: %s is empty, expected records", ErrFormat, name)
	}
	if err != nil {
		return nil, csvErr(name, err)
	}
	names, headed := columnsOf(first)
	if len(first) > 2 && strings.TrimSpace(first[0]) == "" {
		if _, others := columnsOf(first[1:]); others {
			return nil, fmt.Errorf("%w: %s: the first column has no name, as the index that pandas writes; leave it out (to_csv(..., index=False)), or name it", ErrFormat, name)
		}
	}
	t, label, err := o.columns(name, names)
	if err != nil {
		return nil, err
	}
	var labels []string
	for record := first; ; {
		if headed {
			headed = false
		} else {
			if len(t.X)+len(record) > maxTable {
				return nil, fmt.Errorf("%w: %s has more than %d numbers", ErrTooLarge, name, maxTable)
			}
			if len(record) != len(names) {
				line, _ := in.FieldPos(0)
				return nil, fmt.Errorf("%w: %s: line %d has %d fields, expected %d as in the first", ErrFormat, name, line, len(record), len(names))
			}
			for c, field := range record {
				text := strings.TrimSpace(field)
				if c == label && !o.Regression {
					if text == "" {
						line, _ := in.FieldPos(c)
						return nil, fmt.Errorf("%w: %s: line %d has no label: column %.40q is empty; leave the row out, or give it one", ErrFormat, name, line, names[c])
					}
					labels = append(labels, strings.Clone(text)) // not all of the record
					continue
				}
				x, err := strconv.ParseFloat(text, 32)
				if err != nil || math.IsNaN(x) || math.IsInf(x, 0) {
					line, _ := in.FieldPos(c)
					return nil, fmt.Errorf("%w: %s: line %d, column %.40q: %.40q, expected a finite number (%s)%s", ErrFormat, name, line, names[c], field, t.labelled(), advice(text))
				}
				if c == label {
					t.Target = append(t.Target, float32(x))
				} else {
					t.X = append(t.X, float32(x))
				}
			}
			t.Rows++
		}
		record, err = in.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, csvErr(name, err)
		}
	}
	if t.Rows == 0 {
		return nil, fmt.Errorf("%w: %s has names of columns only, expected records", ErrFormat, name)
	}
	t.classify(labels)
	return t, nil
}

// columns returns a table without rows for columns of these names, and which of them is
// the label, -1 for none.
func (o *TableOptions) columns(file string, names []string) (t *Table, label int, err error) {
	if o.NoLabel {
		return &Table{Names: names}, -1, nil
	}
	label = len(names) - 1
	if o.Label != "" {
		if label = slices.Index(names, o.Label); label < 0 {
			return nil, 0, fmt.Errorf("%w: %s has no column %.40q for the label, expected one of %.200q", ErrFormat, file, o.Label, names)
		}
	}
	if len(names) < 2 {
		return nil, 0, fmt.Errorf("%w: %s has 1 column, %.40q, expected a label and at least 1 other, separated by %q", ErrFormat, file, names[0], cmp.Or(o.Comma, ','))
	}
	return &Table{Names: slices.Delete(slices.Clone(names), label, label+1), Label: names[label]}, label, nil
}

// advice says what to do about a field that is no number.
func advice(field string) string {
	if field == "" {
		return "; fill it, or leave the row or the column out"
	}
	return "; of a column of texts make a column of 0 and 1 for each text"
}

// labelled says which column is the label.
func (t *Table) labelled() string {
	if t.Label == "" {
		return "there is no label"
	}
	return fmt.Sprintf("the label is column %.40q", t.Label)
}

// ReadCSVFile calls ReadCSV with the file at path.
func ReadCSVFile(path string, opts *TableOptions) (*Table, error) {
	return fromFile(path, func(r io.Reader, name string) (*Table, error) { return ReadCSV(r, name, opts) })
}

// csvErr returns a reader's error as one of this package's.
func csvErr(name string, err error) error {
	if parse := (*csv.ParseError)(nil); errors.As(err, &parse) {
		return fmt.Errorf("%w: %s: %v", ErrFormat, name, err)
	}
	return fmt.Errorf("data: %s: %w", name, err)
}

// columnsOf returns the names of the columns, and whether the first record is them.
func columnsOf(first []string) (names []string, headed bool) {
	headed = !slices.ContainsFunc(first, func(field string) bool {
		_, err := strconv.ParseFloat(strings.TrimSpace(field), 64)
		return err == nil || strings.TrimSpace(field) == ""
	})
	for c, field := range first {
		if headed {
			names = append(names, strings.TrimSpace(field))
		} else {
			names = append(names, fmt.Sprintf("c%d", c+1))
		}
	}
	return names, headed
}

// classify sets the classes of the labels' texts.
func (t *Table) classify(labels []string) {
	if len(labels) == 0 {
		return
	}
	t.Classes = slices.Compact(slices.Sorted(slices.Values(labels)))
	numbers := make(map[string]int64, len(t.Classes))
	for _, c := range t.Classes {
		if n, err := strconv.ParseInt(c, 10, 64); err == nil {
			numbers[c] = n
		}
	}
	if len(numbers) == len(t.Classes) {
		slices.SortStableFunc(t.Classes, func(a, b string) int { return cmp.Compare(numbers[a], numbers[b]) })
	}
	index := make(map[string]int64, len(t.Classes))
	for i, c := range t.Classes {
		index[c] = int64(i)
	}
	t.Class = make([]int64, len(labels))
	for i, l := range labels {
		t.Class[i] = index[l]
	}
}
