package data

import (
	"errors"
	"fmt"
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
		{shirts, TableOptions{}, ErrFormat, `t.csv: line 2, column "colour": "red", expected a finite number (the label is column "kind"); if the column is one of texts, name it in TableOptions.Categories`},
		{shirts, TableOptions{Categories: all}, ErrFormat, `t.csv: line 3, column "price": "", expected a finite number (the label is column "kind"); fill it, have TableOptions.Fill do it`},
		{",1,x\n2,1,y\n", TableOptions{Categories: all}, ErrFormat, `line 1, column "c1": "", expected a finite number`},
		{"a,b,k\nr,1,x\nb,,y\n,1,y\n", TableOptions{Categories: []string{"k"}}, ErrFormat, `column "k" is the label, expected other columns`},
		{"a,b,k\nr,1,x\n", TableOptions{Categories: []string{"colour"}}, ErrFormat, `no column "colour" of categories, expected some of ["a" "b"]`},
		{"a,b,k\nr,1,x\n3,1,x\n", TableOptions{Categories: all}, ErrFormat, `line 3, column "a": "3", expected a text as in line 2, "r"; if its numbers are texts too, name the column in TableOptions.Categories`},
		{"a,b,k\nr,1,x\ns,1O,x\n", TableOptions{Categories: all}, ErrFormat, `line 3, column "b": "1O", expected a finite number as in line 2, "1"`},
		{"a,b,k\nr,,x\ns,,x\n", TableOptions{Categories: all}, ErrFormat, `line 2, column "b": "", expected a finite number`},
		{"a,b,k\nr,,x\ns,,x\n", TableOptions{Categories: all, Fill: FillMean}, ErrFormat, `column "b" has 0 numbers, of which TableOptions.Fill makes NaN`},
		{"a,b\n1,2\n1,\n", TableOptions{Regression: true, Fill: FillMean}, ErrFormat, `line 3, column "b": "", expected a finite number (the label is column "b"); leave the row out`},
		{strings.Replace(shirts, "blue", "green", 1), TableOptions{Like: like}, ErrFormat, `line 4, column "colour": "green", expected one of ["" "blue" "red"], which are all that TableOptions.Like has`},
		{strings.Replace(shirts, "old", "torn", 1), TableOptions{Like: like}, ErrFormat, `line 3, column "kind": "torn", expected one of ["new" "old"]`},
		{"a,b,kind\n1,1,old\n", TableOptions{Like: like}, ErrFormat, `has the columns ["a" "b"] and lacks "colour"`},
		{"z," + shirts, TableOptions{Like: like}, ErrFormat, `has a column "z", expected only`},
		{"colour,size,price,size,kind\nred,1,1,1,old\n", TableOptions{Like: like}, ErrFormat, `two columns "size"`},
		{"colour,size,price\nred,1,1\n", TableOptions{Like: like}, ErrFormat, `no column "kind" for the label, expected one of ["colour" "size" "price"], or TableOptions.NoLabel`},
		{shirts, TableOptions{Like: like, Categories: all}, ErrMismatch, "Like and Categories or Fill"},
		{shirts, TableOptions{Like: &Table{Names: like.Names, Fill: []float32{1}}}, ErrMismatch, "3 columns with 0 lists of categories and 1 fills"},
		{shirts, TableOptions{Like: &Table{Names: like.Names, Label: "kind", Categories: like.Categories}}, ErrFormat, `line 3, column "price": "", expected a finite number`},
	} {
		_, err := ReadCSV(strings.NewReader(c.text), "t.csv", &c.o)
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%q, %+v: %v, expected %q", c.text, c.o, err, c.says)
		}
	}
	var field *FieldError
	if _, err := ReadCSV(strings.NewReader(shirts), "t.csv", nil); !errors.As(err, &field) || field.Line != 2 || field.Column != "colour" || field.Value != "red" || field.File != "t.csv" {
		t.Errorf("%+v", field)
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
