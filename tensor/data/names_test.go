package data

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"github.com/ringside-go/ringside/shm/plain/plaintest"
)

// TestWide reads a table of many columns, and one in its form: names are looked up in
// time that does not grow with their square.
func TestWide(t *testing.T) {
	const columns = 100_000
	var names, row strings.Builder
	for c := range columns {
		fmt.Fprintf(&names, "gene%d,", c)
		row.WriteString("1,")
	}
	text := names.String() + "label\n" + row.String() + "2\n"
	all, err := ReadCSV(strings.NewReader(text), "wide.csv", &TableOptions{Regression: true})
	if err != nil {
		t.Fatal(err)
	}
	same, err := ReadCSV(strings.NewReader(text), "wide.csv", &TableOptions{Like: all.Form()})
	if err != nil || len(same.Names) != columns || same.Names[columns-1] != all.Names[columns-1] || same.Target[0] != 2 {
		t.Errorf("%v, %d columns, expected %d", err, len(same.Names), columns)
	}
}

// TestTyped has names of columns as a command line takes them.
func TestTyped(t *testing.T) {
	for name, want := range map[string]string{
		"a":                      `'a'`,
		"a b":                    `'a b'`,
		"City, State":            `'"City, State"'`,
		`5" pipe`:                `'"5"" pipe"'`,
		"it's":                   `$'it\'s'`,
		"\x1b[31mred":            `$'\x1b[31mred'`,
		"a\nb":                   `$'"a\nb"'`,
		`a\` + "\t":              `$'a\\\t'`,
		strings.Repeat("x", 1e6): "a,b",
	} {
		got := typed(name)
		if got != want {
			t.Errorf("%.40q: %s, expected %s", name, got, want)
		}
		if value, ok := strings.CutPrefix(got, "'"); ok { // the shell leaves it as it is
			if names, err := columnNames(strings.TrimSuffix(value, "'")); err != nil || len(names) != 1 || names[0] != name {
				t.Errorf("%s is %q, %v, expected %q", got, names, err, name)
			}
		}
	}
	if names, err := columnNames(` a,"b, c", d"e`); err != nil || fmt.Sprintf("%q", names) != `["a" "b, c" "d\"e"]` {
		t.Errorf("%q, %v", names, err)
	}
	for _, text := range []string{"", "a\nb"} {
		fs := flag.NewFlagSet("t", flag.ContinueOnError)
		fs.SetOutput(io.Discard)
		(&TableOptions{}).AddFlags(fs)
		if err := fs.Parse([]string{"-without", text}); err == nil || !strings.Contains(err.Error(), "one that has a comma in it needs quotes") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestNamesInErrors has files, folders and columns whose names hold control characters:
// errors about them hold none.
func TestNamesInErrors(t *testing.T) {
	const odd = plaintest.Odd
	dir := filepath.Join(t.TempDir(), odd)
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	empty := filepath.Join(dir, "empty"+odd)
	if err := os.Mkdir(empty, 0o700); err != nil {
		t.Fatal(err)
	}
	flags := &TableOptions{}
	flags.AddFlags(flag.NewFlagSet("t", flag.ContinueOnError))
	table := func(path string, o *TableOptions) error { _, err := ReadCSVFile(path, o); return err }
	text := func(path string) error { _, err := LoadText(path, nil); return err }
	column := file("column.csv", "\"a\x1b[31m\",k\nred,x\n")
	_, idx := ReadIDXFile(file("empty.idx", ""))
	_, npy := ReadNPYFile(file("empty.npy", ""))
	_, images := FindImages(dir)
	_, many := ReadCSV(strings.NewReader("a,k\n1,2,3\n"), odd, nil)
	for name, err := range map[string]error{
		"no table": table(filepath.Join(dir, "none.csv"), nil), "no folder": table(filepath.Join(dir, odd, "none.csv"), nil),
		"an empty table": table(file("empty.csv", ""), nil), "a column": table(column, nil), "a column as a flag": table(column, flags),
		"a row": many, "idx": idx, "npy": npy, "images": images,
		"no text": text(filepath.Join(dir, "none.txt")), "an empty text": text(file("empty.txt", "")), "a folder without text": text(empty),
	} {
		if err == nil || strings.ContainsFunc(err.Error(), unicode.IsControl) {
			t.Errorf("%s: %q, expected an error without control characters", name, err)
		}
	}
	if _, err := ReadCSVFile(filepath.Join(dir, "none.csv"), nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v, expected that it is not there", err)
	}
}
