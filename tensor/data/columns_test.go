package data

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"
)

const (
	shirts = "colour,size,price,kind\nred,10,1.5,new\n,2,,old\nblue,10,4.5,new\n"
	more   = "kind,price,colour,size\nold,,blue,2\n"
)

// read reads text, which it expects to be a table.
func read(t *testing.T, text string, o *TableOptions) *Table {
	t.Helper()
	table, err := ReadCSV(strings.NewReader(text), "t.csv", o)
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return table
}

func TestCategories(t *testing.T) {
	colours := []string{"", "blue", "red"}
	for _, c := range []struct {
		o    TableOptions
		want Table
	}{
		{TableOptions{Categories: []string{"colour", "size"}, Fill: FillMean}, Table{
			X:          []float32{2, 1, 1.5, 0, 0, 3, 1, 1, 4.5},
			Categories: [][]string{colours, {"2", "10"}, nil}, Fill: []float32{0, 0, 3}}},
		{TableOptions{Categories: []string{AllTexts}, Fill: FillNumber(-1)}, Table{
			X:          []float32{2, 10, 1.5, 0, 2, -1, 1, 10, 4.5},
			Categories: [][]string{colours, nil, nil}, Fill: []float32{0, -1, -1}}},
	} {
		c.want.Names, c.want.Rows, c.want.Label = []string{"colour", "size", "price"}, 3, "kind"
		c.want.Classes, c.want.Class = []string{"new", "old"}, []int64{0, 1, 0}
		got := read(t, shirts, &c.o)
		if !reflect.DeepEqual(*got, c.want) {
			t.Errorf("%v: %+v, expected %+v", c.o.Categories, *got, c.want)
		}
		// Other rows have the same form, whatever the order of their columns.
		if err := got.ApplyScale(Scale{Mean: []float32{0, 0, 1}, Deviation: []float32{1, 1, 2}}); err != nil {
			t.Fatal(err)
		}
		row := []float32{1, 0, (got.Fill[2] - 1) / 2}
		if got.Categories[1] == nil {
			row[1] = 2
		}
		for _, text := range []string{more, "size,colour,price\n2,blue,\n"} {
			o := &TableOptions{Like: got, NoLabel: text != more}
			if next := read(t, text, o); !reflect.DeepEqual(next.X, row) || !reflect.DeepEqual(next.Names, got.Names) ||
				!reflect.DeepEqual(next.Categories, got.Categories) || !reflect.DeepEqual(next.Scale, got.Scale) {
				t.Errorf("%q: %+v, expected %v as in %+v", text, next, row, got)
			} else if text == more && (next.Class[0] != 1 || len(next.Classes) != 2) {
				t.Errorf("class %d of %q, expected 1 of %q", next.Class[0], next.Classes, got.Classes)
			}
		}
		// The names and forms that a program has saved are enough.
		saved := &Table{Names: got.Names, Categories: got.Categories, Fill: got.Fill, Scale: got.Scale}
		if next := read(t, "colour,size,price\nblue,2,\n", &TableOptions{Like: saved}); !reflect.DeepEqual(next.X, row) || next.Label != "" {
			t.Errorf("like a table without rows: %+v, expected %v", next, row)
		}
		if err := got.ApplyScale(*got.Scale); err == nil {
			t.Error("a table was scaled twice")
		}
	}
	numbers := read(t, "a,b\n1,2.5\n", &TableOptions{Regression: true})
	if next := read(t, "b,a\n7.5,1\n", &TableOptions{Like: numbers}); !reflect.DeepEqual(next.Target, []float32{7.5}) || next.Class != nil {
		t.Errorf("like a table of numbers: %+v", next)
	}
	if err := numbers.ApplyScale(Scale{Mean: []float32{0, 0}, Deviation: []float32{1, 1}}); err == nil {
		t.Error("a table of 1 column has a scale of 2")
	}
}

func TestCategoryErrors(t *testing.T) {
	all := []string{AllTexts}
	like := read(t, shirts, &TableOptions{Categories: []string{"colour"}, Fill: FillMean})
	for _, c := range []struct {
		text string
		o    TableOptions
		want error
		says string
	}{
		{shirts, TableOptions{}, ErrFormat, `t.csv: line 2, column "colour": "red", expected a finite number (the label is column "kind"); if the column is one of texts, name it in TableOptions.Categories, or all of them by AllTexts; or leave it out (TableOptions.Without)`},
		{shirts, TableOptions{Categories: all}, ErrFormat, `t.csv: line 3, column "price": "", expected a finite number (the label is column "kind"); correct it, or TableOptions.Fill fills it; or leave the row or the column out (TableOptions.Without)`},
		{",1,x\n2,1,y\n", TableOptions{Categories: all}, ErrFormat, `line 1, column "c1": "", expected a finite number`},
		{"a,b,k\nr,1,x\nb,,y\n,1,y\n", TableOptions{Categories: []string{"k"}}, ErrFormat, `column "k" is the label, expected other columns`},
		{"a,b,k\nr,1,x\n", TableOptions{Categories: []string{"colour"}}, ErrFormat, `no column "colour" of categories, expected some of "a", "b"`},
		{"a,b,k\nr,1,x\n3,1,x\n", TableOptions{Categories: all}, ErrFormat, `line 3, column "a": "3", expected a text as in line 2, "r"; correct it, or if its numbers are texts too, name the column: TableOptions.Categories`},
		{"a,b,k\nr,1,x\ns,1O,x\n", TableOptions{Categories: all}, ErrFormat, `line 3, column "b": "1O", expected a finite number (the label is column "k"); line 2 has "1": correct it, or leave it empty: TableOptions.Fill fills it; if the numbers are texts too`},
		{"a,b,k\nr,,x\ns,,x\n", TableOptions{Categories: all}, ErrFormat, `line 2, column "b": "", expected a finite number`},
		{"a,b,k\nr,,x\ns,,x\n", TableOptions{Categories: all, Fill: FillMean}, ErrFormat, `column "b" has 0 numbers, of which TableOptions.Fill makes NaN`},
		{"a,b\n1,2\n1,\n", TableOptions{Regression: true, Fill: FillMean}, ErrFormat, `line 3, column "b": "", expected a finite number (the label is column "b"); leave the row out`},
		{strings.Replace(shirts, "blue", "green", 1), TableOptions{Like: like}, ErrFormat, `line 4, column "colour": "green", expected one of "", "blue", "red", which are all in the table that was learnt from (TableOptions.Like); correct it, leave the row out, or train again`},
		{strings.Replace(shirts, "old", "torn", 1), TableOptions{Like: like}, ErrFormat, `line 3, column "kind": "torn", expected one of "new", "old", which`},
		{"a,b,kind\n1,1,old\n", TableOptions{Like: like}, ErrFormat, `has the columns "a", "b" and lacks "colour", expected those of the table that was learnt from: "colour", "size", "price"`},
		{"z," + shirts, TableOptions{Like: like}, ErrFormat, `has a column "z", expected only`},
		{"colour,size,price,size,kind\nred,1,1,1,old\n", TableOptions{Like: like}, ErrFormat, `two columns "size"`},
		{"colour,size,price\nred,1,1\n", TableOptions{Like: like}, ErrFormat, `no column "kind" for the label, expected one of "colour", "size", "price"; TableOptions.NoLabel takes rows without it`},
		{shirts, TableOptions{Like: like, Categories: all}, ErrMismatch, "Like and Categories, OneHot, Fill or Without"},
		{shirts, TableOptions{Like: &Table{Names: like.Names, Fill: []float32{1}}}, ErrMismatch, "3 columns with 0 lists of categories, 1 fill and 0 marks of texts"},
		{shirts, TableOptions{Like: &Table{Names: like.Names, Categories: like.Categories, OneHot: make([]OneHot, 3)}}, ErrMismatch, "OneHot and Categories"},
		{shirts, TableOptions{Without: []string{"weight"}}, ErrFormat, `no column "weight" to leave out, expected some of "colour", "size", "price", "kind"`},
		{shirts, TableOptions{Without: []string{"kind"}}, ErrFormat, `column "kind" is the label and is to be left out, expected another label (TableOptions.Label)`},
		{shirts, TableOptions{Without: []string{"colour", "size", "price"}}, ErrFormat, `has 4 columns, "colour", "size", "price", "kind": TableOptions.Without leaves none beside the label "kind", expected at least 1 that stays`},
		{"a,b\n1,2\n", TableOptions{Without: []string{"a", "b"}, NoLabel: true}, ErrFormat, `has 2 columns, "a", "b": TableOptions.Without leaves none, expected`},
		{"kind\nold\n", TableOptions{Like: like, NoLabel: true}, ErrFormat, `has no columns but the label and those left out, expected those of the table that was learnt from: "colour"`},
		{"a,b,k\nr,\"1,234\",x\ns,5,x\n", TableOptions{Categories: all}, ErrFormat, `line 3, column "b": "5", expected a text as in line 2, "1,234", which is no number here: write it as 1234`},
		{"a,b,k\nr,5,x\ns,\"1,234.5\",x\n", TableOptions{Categories: all}, ErrFormat, `line 3, column "b": "1,234.5", expected a finite number (the label is column "k"); write it as 1234.5, and others`},
		{"a,k\n1,\"1,234\"\n", TableOptions{Regression: true}, ErrFormat, `line 2, column "k": "1,234", expected a finite number (the label is column "k"); write it as 1234, and others`},
		{"area,area,k\n1,2,x\n", TableOptions{}, ErrFormat, `two columns "area", expected one of each name; rename one`},
		{"k,area,k\n1,2,x\n", TableOptions{Label: "k"}, ErrFormat, `two columns "k"`},
		{"2019,2020,k\n1,2,3\n", TableOptions{Regression: true}, ErrFormat, `line 1, column "c3": "k", expected a finite number (the label is column "c3"); leave the row out, or correct it; if the label is a class, it needs no TableOptions.Regression; line 1 was taken for a row`},
		{"a,k\n1,x\nNA,x\n", TableOptions{}, ErrFormat, `line 3, column "a": "NA", expected a finite number (the label is column "k"); correct it, or TableOptions.Fill fills it`},
		{"a,k\n1,x\n1e40,x\n", TableOptions{Categories: all, Fill: FillMean}, ErrFormat, `"1e40", expected a finite number (the label is column "k"); the largest is 3.4e38; correct it, or leave it empty: TableOptions.Fill fills it; or leave the column out`},
		{"area,2019,2020,l\nlow,1,2,x\n", TableOptions{Label: "k"}, ErrFormat, `no column "k" for the label, expected one of "c1", "c2", "c3", "c4" (TableOptions.Label); line 1 was taken for a row, not for names of columns, since "2019" in it is a number`},
		{"area,room,,k\nlow,big,2,x\n", TableOptions{Categories: []string{"size"}}, ErrFormat, `no column "size" of categories, expected some of "c1", "c2", "c3"; line 1 was taken for a row, not for names of columns, since field 3 of it is empty`},
		{shirts, TableOptions{Like: &Table{Names: like.Names, Label: "kind", Categories: like.Categories}}, ErrFormat, `line 3, column "price": "", expected a finite number`},
	} {
		_, err := ReadCSV(strings.NewReader(c.text), "t.csv", &c.o)
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%q, %+v: %v, expected %q", c.text, c.o, err, c.says)
		}
	}
	// A label that has 951 values is not a list in an error.
	many := &Table{Names: []string{"a"}, Label: "k"}
	for i := range 951 {
		many.Classes = append(many.Classes, fmt.Sprint("class", i))
	}
	if _, err := ReadCSV(strings.NewReader("a,k\n1,x\n"), "t.csv", &TableOptions{Like: many}); err == nil || !strings.Contains(err.Error(), `"class9" and 941 more, which`) || len(err.Error()) > 400 {
		t.Errorf("951 classes: %v", err)
	}
	var field *FieldError
	if _, err := ReadCSV(strings.NewReader(shirts), "t.csv", nil); !errors.As(err, &field) || field.Line != 2 || field.Column != "colour" || field.Value != "red" || field.File != "t.csv" {
		t.Errorf("%+v", field)
	}
}

// TestOneHot reads texts as a column each, and other rows in the form that a program has
// kept as JSON.
func TestOneHot(t *testing.T) {
	o := &TableOptions{Categories: []string{AllTexts}, OneHot: true, Fill: FillMean, Without: []string{"size"}, Label: "kind"}
	got := read(t, shirts, o)
	if want := []string{"colour=", "colour=blue", "colour=red", "price"}; !reflect.DeepEqual(got.Names, want) {
		t.Errorf("names %q, expected %q", got.Names, want)
	}
	if want := []float32{0, 0, 1, 1.5, 1, 0, 0, 3, 0, 1, 0, 4.5}; !reflect.DeepEqual(got.X, want) || got.Categories != nil {
		t.Errorf("%v, categories %q, expected %v", got.X, got.Categories, want)
	}
	scale, err := got.NumberScale()
	if err != nil {
		t.Fatal(err)
	}
	if err := got.ApplyScale(scale); err != nil || scale.Mean[1] != 0 || scale.Deviation[1] != 1 || scale.Mean[3] != 3 {
		t.Errorf("%v: %+v, expected that marks of texts stay", err, scale)
	}
	kept, err := json.Marshal(got.Form())
	if err != nil {
		t.Fatal(err)
	}
	like := &Table{}
	if err := json.Unmarshal(kept, like); err != nil || !reflect.DeepEqual(like, got.Form()) {
		t.Errorf("%s: %+v, %v, expected %+v", kept, like, err, got.Form())
	}
	row := []float32{0, 1, 0, 0}
	for text, class := range map[string][]int64{more: {1}, "colour,price\nblue,NA\n": nil} {
		next := read(t, text, &TableOptions{Like: like, NoLabel: class == nil})
		if !reflect.DeepEqual(next.X, row) || !reflect.DeepEqual(next.Names, got.Names) || !reflect.DeepEqual(next.Class, class) {
			t.Errorf("%q: %+v, expected %v as in %+v", text, next, row, got)
		}
		if !reflect.DeepEqual(next.Form().OneHot, like.OneHot) || !reflect.DeepEqual(next.Fill, like.Fill) {
			t.Errorf("%q: the form %+v, expected %+v", text, next.Form(), like)
		}
	}
	// The class of a row may be there where it is to be predicted.
	if next := read(t, more, &TableOptions{Like: like, NoLabel: true}); !reflect.DeepEqual(next.X, row) || next.Class != nil || next.Label != "" {
		t.Errorf("with its label: %+v, expected %v", next, row)
	}
	numbers := read(t, "a,b\nx,10\ny,30\n", &TableOptions{Regression: true, Categories: []string{"a"}, OneHot: true})
	target := Scale{Mean: []float32{20}, Deviation: []float32{10}}
	if err := numbers.ApplyTargetScale(target); err != nil || !reflect.DeepEqual(numbers.Target, []float32{-1, 1}) || numbers.Form().Target == nil {
		t.Errorf("%v: %+v", err, numbers)
	}
	if next := read(t, "b,a\n40,y\n", &TableOptions{Like: numbers.Form()}); !reflect.DeepEqual(next.Target, []float32{2}) || !reflect.DeepEqual(next.X, []float32{0, 1}) {
		t.Errorf("numbers: %+v", next)
	}
	if err := numbers.ApplyTargetScale(target); !errors.Is(err, ErrMismatch) {
		t.Errorf("a target scaled twice: %v", err)
	}
	if err := got.Form().ApplyScale(Scale{}); !errors.Is(err, ErrMismatch) {
		t.Errorf("an empty scale: %v", err)
	}
	if err := read(t, "a,k\n1,x\n", nil).ApplyScale(Scale{Mean: []float32{1}, Deviation: []float32{0}}); !errors.Is(err, ErrMismatch) {
		t.Errorf("a deviation of 0: %v", err)
	}
	var many strings.Builder
	many.WriteString("a,k\n")
	for i := range maxMarks + 1 {
		fmt.Fprintf(&many, "n%d,x\n", i)
	}
	if _, err := ReadCSV(strings.NewReader(many.String()), "t.csv", &TableOptions{Categories: []string{"a"}, OneHot: true}); !errors.Is(err, ErrTooLarge) || !strings.Contains(err.Error(), `column "a" has 1001 texts, expected at most 1000`) {
		t.Errorf("many texts: %v", err)
	}
}

// TestMissing fills what programs write for a number that is not there, and leaves texts
// as they are.
func TestMissing(t *testing.T) {
	got := read(t, "a,b,k\nNA,None,x\n1,red,y\n nan ,NA,x\n3,,None\n", &TableOptions{Categories: []string{AllTexts}, Fill: FillMean})
	want := []float32{2, 2, 1, 3, 2, 1, 3, 0}
	if !reflect.DeepEqual(got.X, want) || !reflect.DeepEqual(got.Categories[1], []string{"", "NA", "None", "red"}) || !reflect.DeepEqual(got.ClassCounts(), []int{1, 2, 1}) {
		t.Errorf("%+v, expected %v", got, want)
	}
	if got := read(t, "a,k\nNA,x\n?,y\n", &TableOptions{Categories: []string{AllTexts}}); !reflect.DeepEqual(got.Categories[0], []string{"?", "NA"}) {
		t.Errorf("a column without anything else: %+v", got)
	}
}

// TestFlags: options that come from a command line make errors that name its flags.
func TestFlags(t *testing.T) {
	flags := func(args ...string) *TableOptions {
		t.Helper()
		o := &TableOptions{}
		fs := flag.NewFlagSet("t", flag.ContinueOnError)
		o.AddFlags(fs)
		if err := fs.Parse(args); err != nil {
			t.Fatal(err)
		}
		return o
	}
	got := read(t, "colour;size;kind;n\nred;2;new;1\nblue;;old;2\n", flags("-label", "kind", "-categories", "colour,n", "-fill", "mean", "-without", " size", "-comma", ";"))
	if !reflect.DeepEqual(got.Names, []string{"colour", "n"}) || len(got.Categories[1]) != 2 || got.Label != "kind" || got.Fill == nil {
		t.Errorf("%+v", got)
	}
	if o := flags("-fill", "7", "-comma", "tab"); o.Comma != '\t' || o.Fill(nil) != 7 {
		t.Errorf("%+v", o)
	}
	like := read(t, "colour,size,kind\nred,1,x\n", &TableOptions{Categories: []string{AllTexts}})
	for _, c := range []struct {
		text string
		args []string
		like *Table
		says string
	}{
		{"a,k\nred,x\n", nil, nil, "-categories 'a', or -categories '*' for all of them; or leave it out (-without 'a')"},
		{"a,k\n1,x\n,x\n", nil, nil, "correct it, or -fill mean fills it; or leave the row or the column out (-without 'a')"},
		{"a,k\n1,x\n", []string{"-categories", "d/train.csv"}, nil, "the table comes behind it: -categories a,b d/train.csv"},
		{"a;k\n1;x\n", nil, nil, "-comma ';' is another separator"},
		{"colour,size\nred,1\n", nil, like, "-predict takes rows without it"},
		{"colour,size,kind\ngreen,1,x\n", nil, like, "that of -load"},
		{"colour,size,kind\nred,,x\n", nil, like, "train with -fill mean, which then fills it here too"},
	} {
		o := flags(c.args...)
		o.Like = c.like
		_, err := ReadCSV(strings.NewReader(c.text), "t.csv", o)
		if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "TableOptions") {
			t.Errorf("%q: %v, expected %q", c.text, err, c.says)
		}
	}
	for _, args := range [][]string{{"-fill", "median"}, {"-comma", ""}, {"-comma", "ab"}} {
		fs := flag.NewFlagSet("t", flag.ContinueOnError)
		fs.SetOutput(io.Discard)
		(&TableOptions{}).AddFlags(fs)
		if err := fs.Parse(args); err == nil || !strings.Contains(err.Error(), "expected ") {
			t.Errorf("%q: %v", args, err)
		}
	}
}

// TestParseTable gives flags before and behind the table, and forgets a flag's value.
func TestParseTable(t *testing.T) {
	for _, c := range []struct {
		args []string
		path string
		says string // in the error
	}{
		{[]string{"-epochs", "5", "a.csv", "-fill", "mean"}, "a.csv", ""},
		{nil, "", ""},
		{[]string{"a.csv", "b.csv"}, "", `"a.csv" and "b.csv", expected one table`},
		{[]string{"-categories", "a.csv"}, "", "-categories without a table, expected columns and then the table: -categories a,b mine.csv"},
		{[]string{"-without", "a.csv"}, "", "-without a,b mine.csv"},
		{[]string{"-epochs", "7", "a.csv"}, "", `the table "a.csv" has no effect of seven: leave it out`},
		{[]string{"-epochs", "7", "-fill", "mean", "a.csv"}, "", "-fill has no effect of seven"},
		{[]string{"a.csv", "-epochs"}, "", "-epochs needs a value"},
	} {
		fs := flag.NewFlagSet("t", flag.ContinueOnError)
		fs.SetOutput(io.Discard)
		epochs := fs.Int("epochs", 1, "")
		o := &TableOptions{}
		o.AddFlags(fs)
		path, err := ParseTable(fs, c.args)
		if err == nil {
			err = CheckIdle(fs, path, Idle{Case: *epochs == 7, When: "of seven", Flags: []string{"-fill", "table"}})
		}
		if path != c.path && c.says == "" || (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%q: %q, %v, expected %q", c.args, path, err, c.path+c.says)
		}
		if c.path != "" && (*epochs != 5 || o.Fill == nil) {
			t.Errorf("%q: %d epochs, %+v", c.args, *epochs, o)
		}
	}
}

// ExampleTableOptions reads a column of texts and one with an empty field, and another
// file in the same form.
func ExampleTableOptions() {
	rows, err := ReadCSV(strings.NewReader("colour,weight,kind\nred,2,apple\ngreen,,apple\ngreen,4,pear\n"), "fruit.csv",
		&TableOptions{Categories: []string{AllTexts}, Fill: FillMean})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(rows.Names, rows.X, rows.Categories)
	tests, err := ReadCSV(strings.NewReader("kind,colour,weight\npear,red,\n"), "tests.csv", &TableOptions{Like: rows})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(tests.Names, tests.X, tests.Classes, tests.Class)
	// Output:
	// [colour weight] [1 2 0 3 0 4] [[green red] []]
	// [colour weight] [1 3] [apple pear] [1]
}

// TestString describes tables, and what looks like a slip in them.
func TestString(t *testing.T) {
	for _, c := range []struct {
		text string
		o    TableOptions
		want string
	}{
		{shirts, TableOptions{Categories: []string{AllTexts}, OneHot: true, Fill: FillMean}, `3 rows of 3 columns, "colour", "size", "price"
column "colour" has 3 texts in 3 rows; leave it out if each row has its own, as a name: rows with other texts are refused
label "kind" has 2 classes: "new" 2, "old" 1
that is a class for at most two rows each: if the label is a number to predict, read it as one (TableOptions.Regression, or the example ownmodel)`},
		{"a,k\nx,1\nx,1\nx,2\ny,2\nx,3\ny,1\n", TableOptions{Categories: []string{"a"}}, `6 rows of 1 column, "a"
column "a" has 2 texts: "x", "y"
label "k" has 3 classes: "1" 3, "2" 2, "3" 1
classes of 1 row, which may be slips: "3"`},
		{"a,k\n1,2\n1,4\n", TableOptions{Regression: true}, `2 rows of 1 column, "a"
label "k": numbers with a mean of 3 and a deviation of 1`},
	} {
		if got := read(t, c.text, &c.o).String(); got != c.want {
			t.Errorf("%q:\n%s\nexpected\n%s", c.text, got, c.want)
		}
	}
}
