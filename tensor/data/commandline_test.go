package data

import (
	"errors"
	"flag"
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
		"-epochs 1" + strings.Repeat("0", 30): "expected a whole number",
		"-epochs":                             "-epochs needs a value; see prog -help",
		"-comma ab":                           `-comma "ab": expected one character, or tab; see prog -help`,
		"-comma \"":                           `-comma "\"": expected a character that is no quote`,
		"-" + strings.Repeat("x", 1e6):        "see prog -help",
	} {
		fs := flag.NewFlagSet("prog", flag.ExitOnError)
		var out strings.Builder
		fs.SetOutput(&out)
		fs.Int("epochs", 1, "")
		(&TableOptions{}).AddFlags(fs)
		_, err := ParseTable(fs, strings.Fields(args))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
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
