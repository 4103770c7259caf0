package data

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
)

func TestReadCSV(t *testing.T) {
	for _, c := range []struct {
		text string
		o    *TableOptions
		want Table
	}{
		{"a,b,kind\n1,2.5,cat\n-3e1,4,dog\n0,0,cat\n", nil,
			Table{Names: []string{"a", "b"}, Rows: 3, X: []float32{1, 2.5, -30, 4, 0, 0}, Label: "kind", Classes: []string{"cat", "dog"}, Class: []int64{0, 1, 0}}},
		{"10,7\n 2 ,8\r\n10,9", &TableOptions{Label: "c1"},
			Table{Names: []string{"c2"}, Rows: 3, X: []float32{7, 8, 9}, Label: "c1", Classes: []string{"2", "10"}, Class: []int64{1, 0, 1}, Notes: []string{"line 1 of t.csv was taken for the first row, since it does not look like names of columns: the columns are called c1 to c2"}}},
		{"price;\"size; in m\"\n3.5;1\n4;2\n", &TableOptions{Label: "price", Regression: true, Comma: ';'},
			Table{Names: []string{"size; in m"}, Rows: 2, X: []float32{1, 2}, Label: "price", Target: []float32{3.5, 4}}},
		{"\uFEFF\"a\",b\n1,2\n", &TableOptions{Label: "a"}, Table{Names: []string{"b"}, Rows: 1, X: []float32{2}, Label: "a", Classes: []string{"1"}, Class: []int64{0}}},
		{"a,b\n1,2\n3,4\n", &TableOptions{NoLabel: true}, Table{Names: []string{"a", "b"}, Rows: 2, X: []float32{1, 2, 3, 4}}},
		{"1\n", &TableOptions{NoLabel: true}, Table{Names: []string{"c1"}, Rows: 1, X: []float32{1}, Notes: []string{"line 1 of t.csv was taken for the first row, since it does not look like names of columns: its column is called c1"}}},
		{"area,2020,kind\n1,2,x\n", nil, Table{Names: []string{"area", "2020"}, Rows: 1, X: []float32{1, 2}, Label: "kind", Classes: []string{"x"}, Class: []int64{0}}},
		{"2019,2020,kind\n1,2,x\n", &TableOptions{Label: "kind"}, Table{Names: []string{"2019", "2020"}, Rows: 1, X: []float32{1, 2}, Label: "kind", Classes: []string{"x"}, Class: []int64{0}}},
		{"a,,kind\n1,2,x\n", nil, Table{Names: []string{"a", "c2"}, Rows: 1, X: []float32{1, 2}, Label: "kind", Classes: []string{"x"}, Class: []int64{0}}},
		{"1,setosa\n", nil, Table{Names: []string{"c1"}, Rows: 1, X: []float32{1}, Label: "c2", Classes: []string{"setosa"}, Class: []int64{0}, Notes: []string{"line 1 of t.csv was taken for the first row, since it does not look like names of columns: the columns are called c1 to c2"}}},
	} {
		got, err := ReadCSV(strings.NewReader(c.text), "t.csv", c.o)
		if err != nil || !reflect.DeepEqual(*got, c.want) {
			t.Errorf("%q: %+v, %v, expected %+v", c.text, got, err, c.want)
		}
	}
	for text, says := range map[string]string{
		"":                        "is empty",
		"a,b\n":                   "names of columns only",
		"1\n2\n":                  `1 column, "c1", expected`,
		"a;b\n1;2\n":              `1 column, "a;b", expected a label and at least 1 other, separated by ','`,
		"\xff\xfea\x00":           "UTF-16, expected UTF-8",
		"\xfe\xff":                "UTF-16, expected UTF-8",
		"a,b\n1,x\nNaN,y":         `line 3, column "a": "NaN", expected a finite number`,
		"1,2,x\n,2,y\n":           `line 2, column "c1": ""`,
		",2,x\n1,2,y\n":           `line 1, column "c1": ""`,
		",a,b\n0,1,x\n":           "line 1, column 1 has no name, as the index that pandas writes",
		"1,2,x\n1e99,2,y":         `"1e99"`,
		"1,2,x\n1,2\n":            "line 2 has 2 fields, expected 3 as in the first, separated by ','",
		"1,2,x\n1,2,x,4\n":        "line 2 has 4 fields, expected 3 as in the first",
		"1,2,x\n1,2,\n":           `line 2 has no label: column "c3" is empty`,
		"1,2,x\nred,2,y\n":        `"red", expected a finite number (the label is column "c3"); line 1 has "1": correct it, or leave it empty: TableOptions.Fill fills it`,
		"1,2,x\n1,\"2,y\n3,4,z\n": "t.csv: line 2: a quote that no other closes before line",
		"1,2,x\n1,2\",y\n":        "line 2, byte 4: a quote within a field",
		"1,2,x\n1,\"2\"z,y\n":     "line 2, byte 5: a quote that is not closed, or text behind one",
	} {
		if _, err := ReadCSV(strings.NewReader(text), "t.csv", nil); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), "t.csv") {
			t.Errorf("%q: %v, expected %q", text, err, says)
		}
	}
	if _, err := ReadCSV(strings.NewReader("a,b\n1,2\n"), "t.csv", &TableOptions{Label: "z"}); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), `"z"`) {
		t.Errorf("an unknown label: %v", err)
	}
	if _, err := ReadCSV(strings.NewReader("1,2\n1,x\n"), "t.csv", &TableOptions{NoLabel: true}); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), `"x", expected a finite number (there is no label)`) {
		t.Errorf("no number where no label is: %v", err)
	}
	if _, err := ReadCSV(io.MultiReader(strings.NewReader("1,2\n"), iotest.ErrReader(errors.ErrUnsupported)), "t.csv", nil); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("a failing reader: %v", err)
	}
	if b, err := io.ReadAll(&limited{strings.NewReader("abcdef"), 4}); string(b) != "abcd" || !errors.Is(err, ErrTooLarge) {
		t.Errorf("behind the limit: %q, %v", b, err)
	}
	path := write(t, filepath.Join(t.TempDir(), "t.csv"), []byte("1,2\n"))
	for name, says := range map[string]string{"u.csv": `has "t.csv"`, "t.npy": `has no file that ends in ".npy"`, "none/t.csv": "nor is there a folder"} {
		if _, err := ReadCSVFile(filepath.Join(filepath.Dir(path), name), nil); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, expected %q", err, says)
		}
	}
	if got, err := ReadCSVFile(path, nil); err != nil || got.Rows != 1 {
		t.Errorf("%+v, %v", got, err)
	}
}

// ExampleReadCSV reads flowers, and draws batches of them.
func ExampleReadCSV() {
	table, err := ReadCSV(strings.NewReader("length,width,species\n5.1,3.5,setosa\n7.0,3.2,versicolor\n4.9,3.0,setosa\n"), "iris.csv", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	order := NewOrder(table.Rows, 1)
	x, y := make([]float32, 2*len(table.Names)), make([]int64, 2)
	for step := range 2 {
		if err := errors.Join(FillRows(order, uint64(2*step), table.X, x), FillRows(order, uint64(2*step), table.Class, y)); err != nil {
			fmt.Println(err)
		}
	}
	fmt.Println(table.Names, table.Classes, len(x), len(y))
	// Output: [length width] [setosa versicolor] 4 2
}
