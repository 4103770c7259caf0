package data

import (
	"cmp"
	"encoding/csv"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/ringside-go/ringside/shm/plain"
)

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
	// With Like, a column with the name of its label is left out.
	NoLabel bool

	// Categories are the names of columns of texts. Each distinct text becomes a number,
	// 0 for the first in the order of classes; an empty field is a text like the others.
	// AllTexts stands for every column but the label in which no field is a number.
	Categories []string

	// OneHot makes of each column of Categories one for each of its texts, named
	// column=text, which is 1 in the rows that have the text and 0 in the others.
	// Networks learn better from these than from numbers whose order means nothing.
	OneHot bool

	// Fill returns what an empty field of a column of numbers becomes, given the others:
	// FillMean, or FillNumber of a number. NA, N/A, NaN, null, None, - and ? count as
	// empty there, in upper or lower case. An empty label is an error all the same. nil
	// makes every empty field an error.
	Fill func(others []float32) float32

	// Without are the names of columns that are left out.
	Without []string

	// Like is a table whose form this one has, as a test set has that of the training
	// set: the same columns by name, in Like's order, with the same numbers for texts and
	// classes, the same Fill and Without, and the same scales, which are applied. A text
	// or a class that Like lacks is an error. The label is that of Like, if Label is
	// empty, and no column if Like has none. Like needs no rows: Table.Form returns what
	// it needs, which a program may keep. Categories, OneHot, Fill and Without of these
	// options must be zero.
	Like *Table

	// Comma separates fields; 0 is a comma.
	Comma rune

	flags bool // errors name flags
}

// AddFlags defines flags that set o: -label, -categories, -fill, -without and -comma.
// Errors of ReadCSV then name the flags in place of the fields, and call the program's
// own flags -predict, for NoLabel, and -evaluate, for rows with their labels.
func (o *TableOptions) AddFlags(fs *flag.FlagSet) {
	o.flags = true
	list := func(to *[]string) func(string) error {
		return func(text string) error {
			names, err := columnNames(text)
			*to = append(*to, names...)
			return err
		}
	}
	fs.StringVar(&o.Label, "label", o.Label, "`column` to predict; the last one if not given")
	fs.Func("categories", "columns of texts, `a,b`; '*' for all in which no field is a number", list(&o.Categories))
	fs.Func("without", "columns to leave out, `a,b`", list(&o.Without))
	fs.Func("fill", "`what` an empty field of a column of numbers becomes: a number, or mean, that of the column", func(text string) error {
		o.Fill = FillMean
		if text == "mean" {
			return nil
		}
		x, err := strconv.ParseFloat(text, 32)
		if err != nil || math.IsNaN(x) || math.IsInf(x, 0) {
			return fmt.Errorf("expected a finite number of at most 3.4e38, or mean")
		}
		o.Fill = FillNumber(float32(x))
		return nil
	})
	fs.Func("comma", "`what` separates fields: one character, or tab", func(text string) error {
		if text == "tab" {
			text = "\t"
		}
		r, n := utf8.DecodeRuneInString(text)
		if n == 0 || n < len(text) {
			return fmt.Errorf("expected one character, or tab")
		}
		if r == '"' || r == '\r' || r == '\n' || r == utf8.RuneError || r == 0 {
			return fmt.Errorf("expected a character that is no quote and ends no line, or tab")
		}
		o.Comma = r
		return nil
	})
}

// columnNames returns the names in the value of a flag: commas separate them, and quotes
// are around one that has a comma, as in a file.
func columnNames(text string) ([]string, error) {
	in := csv.NewReader(strings.NewReader(text))
	in.TrimLeadingSpace, in.LazyQuotes = true, true
	names, err := in.Read()
	if _, end := in.Read(); err != nil || !errors.Is(end, io.EOF) {
		return nil, errors.New(`expected names with commas between them; one that has a comma in it needs quotes, as '"a, b",c'`)
	}
	for i, name := range names {
		names[i] = strings.TrimSpace(name)
	}
	return names, nil
}

// maxTyped bounds a name that an error repeats for a command line.
const maxTyped = 200

// typed returns what to write in a shell for a flag whose value is the column of that
// name: columnNames of it is the name again.
func typed(name string) string {
	if len(name) > maxTyped {
		return "a,b"
	}
	if strings.ContainsAny(name, ",\"\n\r") {
		name = `"` + strings.ReplaceAll(name, `"`, `""`) + `"`
	}
	if plain.Name(name) == name && !strings.Contains(name, "'") {
		return "'" + name + "'"
	}
	quoted := strconv.Quote(name)
	return "$'" + strings.NewReplacer(`\"`, `"`, "'", `\'`).Replace(quoted[1:len(quoted)-1]) + "'"
}

// check returns an error for a table as Like whose parts don't fit each other, or options
// beside it that it has itself.
func (o *TableOptions) check() error {
	like := o.Like
	if like == nil {
		return nil
	}
	if o.Categories != nil || o.OneHot || o.Fill != nil || o.Without != nil {
		return fmt.Errorf("%w: options with Like and Categories, OneHot, Fill or Without, expected Like alone, which has its own", ErrMismatch)
	}
	if like.OneHot != nil && like.Categories != nil {
		return fmt.Errorf("%w: a table as Like with OneHot and Categories, expected one of them", ErrMismatch)
	}
	n := len(like.Names)
	for _, k := range []int{len(like.Categories), len(like.Fill), len(like.OneHot)} {
		if n == 0 || k != 0 && k != n {
			return fmt.Errorf("%w: a table as Like of %s with %s of categories, %s and %s of texts, expected one for each column, or none",
				ErrMismatch, plain.Count(n, "column"), plain.Count(len(like.Categories), "list"),
				plain.Count(len(like.Fill), "fill"), plain.Count(len(like.OneHot), "mark"))
		}
	}
	return nil
}

// names returns the columns that the file must have for o, as far as o names them.
func (o *TableOptions) names() (all []string) {
	for _, name := range slices.Concat(o.Categories, o.Without) {
		if name != AllTexts {
			all = append(all, name)
		}
	}
	if o.Label != "" {
		all = append(all, o.Label)
	}
	if o.Like != nil {
		all = append(all, o.Like.source().names...)
	}
	return all
}

// say returns what to do in the words of the program, or in those of its command line.
func (o *TableOptions) say(inGo, asFlag string) string {
	if o.flags {
		return asFlag
	}
	return inGo
}

// separated says what separates fields, and how to say otherwise.
func (o *TableOptions) separated() string {
	return fmt.Sprintf("separated by %q (%s is another separator)", cmp.Or(o.Comma, ','), o.say("TableOptions.Comma", "-comma ';'"))
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

// missing reports whether a field of a column of numbers counts as empty.
func missing(text string) bool {
	switch strings.ToLower(text) {
	case "", "na", "n/a", "nan", "null", "none", "-", "?":
		return true
	}
	return false
}
