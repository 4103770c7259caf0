package data

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/ringside-go/ringside/shm/plain"
)

// ParseTable parses a command line that has flags of fs before and behind the path of one
// table. It returns that path, or "" if there is none. A path or a flag that is given but
// empty, as a variable of a shell may be, is an error. Whatever the error handling of fs,
// it returns errors and prints none of them: an error is one line that names the flag.
// For -help it prints the usage of fs and returns flag.ErrHelp.
func ParseTable(fs *flag.FlagSet, args []string) (path string, err error) {
	out, usage := fs.Output(), fs.Usage
	fs.Init(fs.Name(), flag.ContinueOnError)
	fs.SetOutput(io.Discard) // package flag would print the usage behind each error
	fs.Usage = func() {}
	defer func() {
		fs.SetOutput(out)
		fs.Usage = usage
		switch {
		case !errors.Is(err, flag.ErrHelp):
		case usage != nil:
			usage()
		default:
			fmt.Fprintf(out, "usage of %s:\n", fs.Name())
			fs.PrintDefaults()
		}
	}()
	for {
		if err := fs.Parse(args); err != nil {
			return "", flagError(fs, err)
		}
		if fs.NArg() == 0 {
			return path, filled(fs)
		}
		if fs.Arg(0) == "" {
			return "", fmt.Errorf("%q for the table, expected the path of a file; see %s -help", "", fs.Name())
		}
		if path != "" {
			return "", fmt.Errorf("%.200q and %.200q, expected one table", path, fs.Arg(0))
		}
		path, args = fs.Arg(0), fs.Args()[1:]
	}
}

// filled returns an error for a flag of fs that was set to an empty text.
func filled(fs *flag.FlagSet) (err error) {
	fs.Visit(func(f *flag.Flag) {
		if value, ok := f.Value.(flag.Getter); ok && value.Get() == "" && err == nil {
			err = fmt.Errorf("-%s %q: expected a value that is not empty; see %s -help", f.Name, "", fs.Name())
		}
	})
	return err
}

// badValue is package flag's error for a value: the value in quotes, the flag and what
// was expected.
var badValue = regexp.MustCompile(`(?s)^invalid (?:boolean )?value (".*") for (?:flag )?-([^ :]+): (.*)$`)

// flagError returns an error of package flag in one line that begins with the flag, and
// says where the usage is.
func flagError(fs *flag.FlagSet, err error) error {
	if errors.Is(err, flag.ErrHelp) {
		return err
	}
	text := err.Error()
	if name, ok := strings.CutPrefix(text, "flag provided but not defined: -"); ok {
		text = fmt.Sprintf("unknown flag -%.200s%s", plain.Name(name), didYouMean(fs, name))
	} else if name, ok := strings.CutPrefix(text, "flag needs an argument: "); ok {
		text = name + " needs a value"
	} else if m := badValue.FindStringSubmatch(text); m != nil {
		value, name := m[1], m[2]
		if bare, err := strconv.Unquote(value); err == nil {
			value = bare
		}
		text = fmt.Sprintf("-%s %.40q: %s", name, value, expected(fs.Lookup(name), m[3]))
	} else {
		text = fmt.Sprintf("%.200s", plain.Name(text))
	}
	return fmt.Errorf("%s; see %s -help", text, fs.Name())
}

// expected says what the value of f should have been. why is package flag's reason, or
// that of the flag's own kind.
func expected(f *flag.Flag, why string) string {
	want := ""
	if f != nil {
		if value, ok := f.Value.(flag.Getter); ok {
			switch value.Get().(type) {
			case int, int64:
				want = "expected a whole number"
			case uint, uint64:
				want = "expected a whole number of 0 or more"
			case float64:
				want = "expected a number"
			case bool:
				want = "expected true or false"
			case time.Duration:
				want = "expected a duration, as 90s or 1h30m"
			}
		}
	}
	switch {
	case why == "value out of range":
		return strings.TrimSuffix("out of range, "+want, ", ")
	case why == "parse error" && want != "":
		return want
	case why == "parse error":
		return "bad value"
	}
	return fmt.Sprintf("%.200s", plain.Name(why))
}

// otherNames are names that other programs give to flags of ours.
var otherNames = map[string][]string{
	"categories": {"categorical"},
	"comma":      {"sep", "separator", "delimiter"},
	"epochs":     {"steps", "num-epochs", "iterations"},
	"evaluate":   {"test"},
	"label":      {"target", "class", "y"},
	"load":       {"weights", "model"},
	"save":       {"output", "out", "o"},
	"steps":      {"epochs", "max-steps", "iterations"},
	"without":    {"drop", "exclude", "ignore"},
}

// didYouMean returns ", did you mean -a or -b?" for the flags of fs whose names are most
// like the unknown one, or "" if none is like it.
func didYouMean(fs *flag.FlagSet, unknown string) string {
	unknown = strings.ToLower(unknown)
	var best []string
	least := max(1, min(2, (len(unknown)+1)/3))
	fs.VisitAll(func(f *flag.Flag) {
		far := distance(unknown, f.Name)
		switch {
		case slices.Contains(otherNames[f.Name], unknown):
			far = 0
		case len(unknown) > 1 && (strings.HasPrefix(f.Name, unknown) || strings.HasPrefix(unknown, f.Name)):
			far = min(far, 1)
		}
		if far < least {
			best, least = nil, far
		}
		if far == least {
			best = append(best, "-"+f.Name)
		}
	})
	if best == nil {
		return ""
	}
	return fmt.Sprintf(", did you mean %s?", strings.Join(best, " or "))
}

// distance returns how many bytes to insert, remove or replace make b of a.
func distance(a, b string) int {
	if len(a) > 2*maxFlag {
		return len(a)
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// maxFlag is more than the length of a flag's name. It bounds the time of distance.
const maxFlag = 40

// Idle is a case of a command line in which flags have no effect.
type Idle struct {
	Case  bool
	When  string   // in the words of an error: "beside -predict"
	Flags []string // as "-fill"; "table" is the table
}

// CheckIdle returns an error for the first flag of fs, or the table at path, that the
// command line gave and that has no effect. -categories and -without are errors too where
// there is no table: they have then taken its path for columns.
func CheckIdle(fs *flag.FlagSet, path string, cases ...Idle) error {
	given := map[string]string{}
	fs.Visit(func(f *flag.Flag) { given["-"+f.Name] = "-" + f.Name })
	if path != "" {
		given["table"] = fmt.Sprintf("the table %q", path)
	}
	for _, c := range cases {
		for _, name := range c.Flags {
			if c.Case && given[name] != "" {
				return fmt.Errorf("%s has no effect %s: leave it out", given[name], c.When)
			}
		}
	}
	for _, name := range []string{"categories", "without"} {
		if path == "" && given["-"+name] != "" {
			return fmt.Errorf("-%s without a table, expected columns and then the table: -%s a,b mine.csv", name, name)
		}
	}
	return nil
}

// CheckSave returns an error if no file can be written at the path that a flag such as
// "-save" names: if it is a folder or a device, or if its folder takes no files. Where
// folders are yet to be made, the nearest one that is there has to take files. It leaves
// nothing behind. An empty path is none.
func CheckSave(name, path string) error {
	if path == "" {
		return nil
	}
	wrong := func(format string, args ...any) error {
		return fmt.Errorf("%s %q: %w", name, path, fmt.Errorf(format, args...))
	}
	st, err := os.Stat(path)
	base := filepath.Base(path)
	switch {
	case err == nil && st.IsDir(), base == ".", base == "..", os.IsPathSeparator(path[len(path)-1]):
		return wrong("it names a folder, expected a file")
	case err == nil && !st.Mode().IsRegular():
		return wrong("it is a device, a pipe or a socket, expected a regular file or none")
	}
	dir, below := filepath.Dir(path), base
	for st, err = os.Stat(dir); (errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)) && dir != filepath.Dir(dir); st, err = os.Stat(dir) {
		dir, below = filepath.Dir(dir), filepath.Base(dir)
	}
	if err == nil && !st.IsDir() {
		return wrong("%s is a file, expected a folder", plain.Name(dir))
	}
	f, err := os.CreateTemp(dir, "."+below+".tmp*")
	if err == nil {
		return errors.Join(f.Close(), os.Remove(f.Name()))
	}
	// The error has the name of the temporary file, which was chosen here.
	if of := (*fs.PathError)(nil); errors.As(err, &of) {
		err = of.Err
	}
	return wrong("making a file in the folder %s: %w", plain.Name(dir), err)
}
