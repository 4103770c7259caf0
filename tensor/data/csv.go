package data

import (
	"bufio"
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
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

	// Categories has for each column of X the texts that its numbers stand for: 0 is the
	// first. It is nil for a column of numbers, and as a whole if all columns are.
	Categories [][]string

	// Fill is what an empty field of each column of X became, or would have become. It is
	// nil without TableOptions.Fill.
	Fill []float32

	// Scale is what ApplyScale has brought X to; nil if nothing did.
	Scale *Scale
}

// ApplyScale brings X to s, and keeps s as the table's Scale. A table that has one
// already is an error.
func (t *Table) ApplyScale(s Scale) error {
	if t.Scale != nil {
		return errors.New("data: scale of a table that is scaled already, expected one without a Scale")
	}
	if len(s.Mean) != len(t.Names) {
		return fmt.Errorf("data: a table of %d columns and a scale of %d: expected as many", len(t.Names), len(s.Mean))
	}
	if err := s.Apply(t.X); err != nil {
		return err
	}
	t.Scale = &s
	return nil
}

// AllTexts in TableOptions.Categories stands for every column of texts.
const AllTexts = "*"

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

	// Categories are the names of columns of texts. Each distinct text becomes a number,
	// 0 for the first in the order of classes; an empty field is a text like the others.
	// AllTexts stands for every column but the label in which no field is a number.
	Categories []string

	// Fill returns what an empty field of a column of numbers becomes, given the others:
	// FillMean, or FillNumber of a number. An empty label is an error all the same. nil
	// makes every empty field an error.
	Fill func(others []float32) float32

	// Like is a table whose form this one has, as a test set has that of the training
	// set: the same columns by name, in Like's order, with the same numbers for texts and
	// classes, the same Fill and the same Scale, which is applied. A text or a class that
	// Like lacks is an error. The label is that of Like, if Label is empty, and no column
	// if Like has none. Like needs no rows: a program may make it of what it has saved.
	// Categories and Fill of these options must be nil.
	Like *Table

	// Comma separates fields; 0 is a comma.
	Comma rune
}

// FillMean is a TableOptions.Fill: the mean of the others.
func FillMean(others []float32) float32 {
	sum := 0.0
	for _, x := range others {
		sum += float64(x)
	}
	return float32(sum / float64(len(others)))
}

// FillNumber returns a TableOptions.Fill that returns x.
func FillNumber(x float32) func([]float32) float32 {
	return func([]float32) float32 { return x }
}

// FieldError is an ErrFormat for one field of a table.
type FieldError struct {
	File   string
	Line   int
	Column string
	Value  string
	Want   string // expected instead, and what to do
}

// Error names the file, the line and the column.
func (e *FieldError) Error() string {
	return fmt.Sprintf("%v: %s: line %d, column %.40q: %.40q, expected %s", ErrFormat, e.File, e.Line, e.Column, e.Value, e.Want)
}

// Unwrap returns ErrFormat.
func (e *FieldError) Unwrap() error { return ErrFormat }

// ReadCSV reads a table of comma-separated values (RFC 4180). All columns but the label
// are finite numbers, unless TableOptions.Categories names them. If the first record has
// no number in it, it is the names of the columns. A byte order mark is skipped. Errors
// call the file name: ErrFormat, of a field a *FieldError, ErrTooLarge, or the reader's
// own error.
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
	t, err := o.reader(name, names)
	if err != nil {
		return nil, err
	}
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
			t.X = append(t.X, make([]float32, len(t.Names))...)
			for c, field := range record {
				line, _ := in.FieldPos(c)
				if err := t.take(&t.columns[c], strings.TrimSpace(field), field, line); err != nil {
					return nil, err
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
	return t.finish()
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
