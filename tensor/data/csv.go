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

	"github.com/ringside-go/ringside/shm/plain"
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

// FieldError is an ErrFormat for one field of a table.
type FieldError struct {
	File   string
	Line   int
	Column string
	Value  string
	Want   string // expected instead, and what to do
}

// Error names the file, the line, the column, the value and what was expected.
func (e *FieldError) Error() string {
	return fmt.Sprintf("%v: %s: line %d, column %.40q: %.40q, expected %s", ErrFormat, e.File, e.Line, e.Column, e.Value, e.Want)
}

// Unwrap returns ErrFormat.
func (e *FieldError) Unwrap() error { return ErrFormat }

// ReadCSV reads a table of comma-separated values (RFC 4180). All columns but the label
// are finite numbers, unless TableOptions.Categories names them. The first record is the
// names of the columns if it has no number in it, or has texts where the second record
// has numbers, or the names that the options give. A byte order mark is skipped. Errors
// call the file name: ErrFormat, of a field a *FieldError, ErrTooLarge, or the reader's
// own error.
func ReadCSV(r io.Reader, name string, opts *TableOptions) (*Table, error) {
	o := *cmp.Or(opts, &TableOptions{})
	if err := o.check(); err != nil {
		return nil, err
	}
	name = plain.Name(name)
	in, err := newRecords(r, name, &o)
	if err != nil {
		return nil, err
	}
	names, headed, doubt := in.columns(o.names())
	if headed && len(names) > 2 && strings.TrimSpace(in.first[0]) == "" {
		return nil, fmt.Errorf("%w: %s: line %d, column 1 has no name, as the index that pandas writes; leave it out (to_csv(..., index=False)), or name it", ErrFormat, name, in.lines[0])
	}
	t, err := o.reader(name, names, in.lines[0], doubt)
	if err != nil {
		return nil, err
	}
	if !headed && o.Like == nil {
		t.Notes = append(t.Notes, in.unnamed(names))
	}
	for n := 0; ; n++ {
		record, line, err := in.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if n == 0 && headed {
			continue
		}
		if err := t.row(record, line); err != nil {
			return nil, err
		}
	}
	if t.Rows == 0 {
		return nil, fmt.Errorf("%w: %s has names of columns only, expected records", ErrFormat, name)
	}
	return t.finish()
}

// row appends a record. line returns the line of a field.
func (t *tableReader) row(record []string, line func(field int) int) error {
	if len(t.X)+len(record) > maxTable {
		return fmt.Errorf("%w: %s has more than %d numbers", ErrTooLarge, t.file, maxTable)
	}
	if len(record) != len(t.columns) {
		return fmt.Errorf("%w: %s: line %d has %s, expected %d as in the first, %s; a field that has the separator in it needs quotes",
			ErrFormat, t.file, line(0), plain.Count(len(record), "field"), len(t.columns), t.o.separated())
	}
	t.X = append(t.X, make([]float32, len(t.Names))...)
	for c, field := range record {
		if err := t.take(&t.columns[c], strings.TrimSpace(field), field, line(c)); err != nil {
			return err
		}
	}
	t.Rows++
	return nil
}

// ReadCSVFile calls ReadCSV with the file at path.
func ReadCSVFile(path string, opts *TableOptions) (*Table, error) {
	return fromFile(path, func(r io.Reader, name string) (*Table, error) { return ReadCSV(r, name, opts) })
}

// records reads the records of a file, and knows the first two of them before.
type records struct {
	in   *csv.Reader
	name string

	first, second []string // copies; second is nil if there is none
	lines         [2]int   // of their first fields
	taken         int      // how many of them next has returned
	err           error    // of reading the second
}

// newRecords reads the first two records.
func newRecords(r io.Reader, name string, o *TableOptions) (*records, error) {
	text := bufio.NewReader(&limited{r, maxCSV})
	// An error of Peek comes again when the records are read.
	if mark, _ := text.Peek(len(byteOrderMark)); string(mark) == byteOrderMark {
		_, _ = text.Discard(len(mark))
	} else if len(mark) > 1 && (string(mark[:2]) == "\xff\xfe" || string(mark[:2]) == "\xfe\xff") {
		return nil, fmt.Errorf("%w: %s is text in UTF-16, expected UTF-8", ErrFormat, name)
	}
	in := csv.NewReader(text)
	in.FieldsPerRecord = -1 // counted here
	in.Comma = cmp.Or(o.Comma, ',')
	rs := &records{in: in, name: name}
	var err error
	if rs.first, err = in.Read(); errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%w: %s is empty, expected records", ErrFormat, name)
	} else if err != nil {
		return nil, csvErr(name, err)
	}
	rs.lines[0], _ = in.FieldPos(0)
	if rs.second, rs.err = in.Read(); rs.err == nil {
		rs.lines[1], _ = in.FieldPos(0)
	}
	in.ReuseRecord = true
	return rs, nil
}

// unnamed returns the note for a file whose first record was taken for a row. names are
// those that its columns have instead.
func (rs *records) unnamed(names []string) string {
	called := "its column is called " + names[0]
	if last := len(names) - 1; last > 0 {
		called = fmt.Sprintf("the columns are called %s to %s", names[0], names[last])
	}
	return fmt.Sprintf("line %d of %s was taken for the first row, since it does not look like names of columns: %s",
		rs.lines[0], rs.name, called)
}

// next returns the next record, which is valid until the next call, and the line of each
// of its fields. Of the first two records that is the line of the first field.
func (rs *records) next() (record []string, line func(field int) int, err error) {
	n := rs.taken
	rs.taken++
	switch {
	case n == 0:
		record = rs.first
	case n == 1 && rs.err == nil:
		record = rs.second
	case n == 1:
		err = rs.err
	default:
		record, err = rs.in.Read()
		line = func(field int) int { l, _ := rs.in.FieldPos(field); return l }
	}
	if err != nil && !errors.Is(err, io.EOF) {
		err = csvErr(rs.name, err)
	}
	if n < 2 {
		line = func(int) int { return rs.lines[n] }
	}
	return record, line, err
}

// csvErr returns a reader's error as one of this package's.
func csvErr(name string, err error) error {
	parse := (*csv.ParseError)(nil)
	if !errors.As(err, &parse) {
		return fmt.Errorf("data: %s: %w", name, err)
	}
	switch {
	case errors.Is(err, csv.ErrBareQuote):
		return fmt.Errorf("%w: %s: line %d, byte %d: a quote within a field, expected it at both ends; quote the whole field, and write two for one in it", ErrFormat, name, parse.Line, parse.Column)
	case errors.Is(err, csv.ErrQuote) && parse.Line != parse.StartLine:
		return fmt.Errorf("%w: %s: line %d: a quote that no other closes before line %d, expected both ends of a field; close it, and write two for one in a field", ErrFormat, name, parse.StartLine, parse.Line)
	case errors.Is(err, csv.ErrQuote):
		return fmt.Errorf("%w: %s: line %d, byte %d: a quote that is not closed, or text behind one that is, expected both ends of a field; close it, and write two for one in a field", ErrFormat, name, parse.Line, parse.Column)
	}
	return fmt.Errorf("%w: %s: %v", ErrFormat, name, err)
}

// isNumber reports whether a field is a number, in the range of float64.
func isNumber(field string) bool {
	_, err := strconv.ParseFloat(strings.TrimSpace(field), 64)
	return err == nil
}

// columns returns the names of the columns, and whether the first record has them. It has
// if all its fields are texts, if it has all of wanted, or if at least as many of its
// fields are texts above a number of the second record as are numbers. If it has texts
// and none of this holds, doubt says why it isn't the names.
func (rs *records) columns(wanted []string) (names []string, headed bool, doubt string) {
	fields := make([]string, len(rs.first))
	for c, field := range rs.first {
		fields[c] = strings.TrimSpace(field)
	}
	why := ""
	texts, none, over := 0, 0, 0
	for c, field := range fields {
		switch {
		case isNumber(field):
			why = cmp.Or(why, fmt.Sprintf("since %.40q in it is a number", field))
			none++
		case field == "" && (c > 0 || len(fields) < 3): // else it may be an index
			why = cmp.Or(why, fmt.Sprintf("since field %d of it is empty", c+1))
			none++
		case !missing(field):
			texts++
			if c < len(rs.second) && isNumber(rs.second[c]) {
				over++
			}
		}
	}
	all := textsOf(fields)
	headed = none == 0 || over >= none || len(wanted) > 0 && !slices.ContainsFunc(wanted, func(name string) bool {
		_, ok := all.number(name)
		return !ok
	})
	if !headed && texts > 0 {
		doubt = fmt.Sprintf("; line %d was taken for a row, not for names of columns, %s", rs.lines[0], why)
	}
	for c, field := range fields {
		if headed && field != "" {
			names = append(names, field)
		} else {
			names = append(names, fmt.Sprintf("c%d", c+1))
		}
	}
	return names, headed, doubt
}
