package data

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestFlagErrors has command lines with a flag that is not there or has a bad value: the
// error is one line, and nothing is printed.
func TestFlagErrors(t *testing.T) {
	for args, want := range map[string]string{
		"-eopchs 3":                           "unknown flag -eopchs, did you mean -epochs?; see prog -help",
		"t.csv --lable=a":                     "unknown flag -lable, did you mean -label?; see prog -help",
		"-steps 3":                            "unknown flag -steps, did you mean -epochs?; see prog -help",
		"-delimiter ;":                        "unknown flag -delimiter, did you mean -comma?; see prog -help",
		"-cat a":                              "unknown flag -cat, did you mean -categories?; see prog -help",
		"-zzzzzz":                             "unknown flag -zzzzzz; see prog -help",
		"-fill mode":                          `-fill "mode": expected a finite number of at most 3.4e38, or mean; see prog -help`,
		"-fill nan":                           `-fill "nan": expected a finite number`,
		"-fill -inf":                          `-fill "-inf": expected a finite number`,
		"-fill 1e99":                          `-fill "1e99": expected a finite number`,
		"-epochs x":                           `-epochs "x": expected a whole number; see prog -help`,
		"-epochs 1.5":                         `-epochs "1.5": expected a whole number`,
		"-epochs 1" + strings.Repeat("0", 30): `-epochs "1000000000000000000000000000000": out of range, expected a whole number; see prog -help`,
		"-epochs " + strings.Repeat("x", 1e4): `-epochs "` + strings.Repeat("x", 40) + `": expected a whole number; see prog -help`,
		"-rate x":                             `-rate "x": expected a number; see prog -help`,
		"-rate 1e999":                         `-rate "1e999": out of range, expected a number; see prog -help`,
		"-fast=x":                             `-fast "x": expected true or false; see prog -help`,
		"-wait x":                             `-wait "x": expected a duration, as 90s or 1h30m; see prog -help`,
		"-count -1":                           `-count "-1": expected a whole number of 0 or more; see prog -help`,
		"-own 1" + strings.Repeat("0", 1e4):   `": strconv.ParseInt: parsing "1000`,
		"-other x":                            `-other "x": bad value; see prog -help`,
		"---" + strings.Repeat("x", 1e4):      "bad flag syntax: ---xxx",
		"-epochs":                             "-epochs needs a value; see prog -help",
		"-comma ab":                           `-comma "ab": expected one character, or tab; see prog -help`,
		"-comma \"":                           `-comma "\"": expected a character that is no quote`,
		"-" + strings.Repeat("x", 1e6):        "see prog -help",
	} {
		fs := flag.NewFlagSet("prog", flag.ExitOnError)
		var out strings.Builder
		fs.SetOutput(&out)
		fs.Int("epochs", 1, "")
		fs.Float64("rate", 1, "")
		fs.Bool("fast", false, "")
		fs.Duration("wait", 0, "")
		fs.Uint("count", 0, "")
		fs.Func("own", "", func(text string) error {
			_, err := strconv.ParseInt(text, 10, 64)
			return err
		})
		fs.Func("other", "", func(string) error { return errors.New("parse error") })
		(&TableOptions{}).AddFlags(fs)
		_, err := ParseTable(fs, strings.Fields(args))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") || len(err.Error()) > 400 {
			t.Errorf("%.40s: %.200v, expected %q", args, err, want)
		}
		if out.Len() > 0 {
			t.Errorf("%.40s: printed %q", args, &out)
		}
	}
	fs := flag.NewFlagSet("prog", flag.ExitOnError)
	var out strings.Builder
	fs.SetOutput(&out)
	fs.Int("epochs", 1, "how often")
	if _, err := ParseTable(fs, []string{"-help"}); !errors.Is(err, flag.ErrHelp) || !strings.Contains(out.String(), "how often") {
		t.Errorf("-help: %v, printed %q", err, &out)
	}
}

// TestEmptyFlags gives flags and a table that are empty, as a shell's variable may be.
func TestEmptyFlags(t *testing.T) {
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"-save", "", "t.csv"}, `-save "": expected a value that is not empty; see prog -help`},
		{[]string{"t.csv", "-load="}, `-load "": expected a value`},
		{[]string{"-label", "", "t.csv"}, `-label "": expected a value`},
		{[]string{"-without", "", "t.csv"}, `-without "": expected`},
		{[]string{"-comma", "", "t.csv"}, `-comma "": expected`},
		{[]string{""}, `"" for the table, expected the path of a file; see prog -help`},
		{[]string{"-save", "", "t.csv", "-save", "w", "-fast=false", "-comma", ";"}, ""},
	} {
		fs := flag.NewFlagSet("prog", flag.ContinueOnError)
		fs.String("save", "", "")
		fs.String("load", "w", "")
		fs.Bool("fast", false, "")
		(&TableOptions{}).AddFlags(fs)
		if _, err := ParseTable(fs, c.args); (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%q: %v, expected %q", c.args, err, c.says)
		}
	}
}

// TestCheckSave has paths at which a file can be written, and others. None leaves
// anything in the folder.
func TestCheckSave(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "c.csv")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, says := range map[string]string{
		"":                                   "",
		file:                                 "",
		filepath.Join(dir, "w"):              "",
		filepath.Join(dir, "a/b/w"):          "",
		dir:                                  "it names a folder, expected a file",
		filepath.Join(dir, "new") + "/":      "it names a folder, expected a file",
		dir + "/new/.":                       "it names a folder, expected a file",
		file + "/w":                          "c.csv is a file, expected a folder",
		file + "/a/w":                        "c.csv is a file, expected a folder",
		"/dev/full":                          "expected a regular file or none",
		"/proc/none/w":                       "making a file in the folder /proc: ",
		dir + "/" + strings.Repeat("x", 300): "file name too long",
	} {
		err := CheckSave("-save", path)
		if says == "" && err != nil || says != "" && (err == nil || !strings.HasPrefix(err.Error(), fmt.Sprintf("-save %q: ", path)) || !strings.Contains(err.Error(), says)) {
			t.Errorf("%.60q: %v, expected %q", path, err, says)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("the folder has %v, %v, expected c.csv alone", entries, err)
	}
}
