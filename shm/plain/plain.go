// Package plain writes names of files, names in files, and counts for people to read.
package plain

import (
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Name returns a name for an error or a line of output. A name with characters that do
// not print is quoted, since a terminal may obey them.
func Name(name string) string {
	if utf8.ValidString(name) && !strings.ContainsFunc(name, func(r rune) bool { return !strconv.IsPrint(r) }) {
		return name
	}
	return strconv.Quote(name)
}

// MostNames is how many names Names lists.
const MostNames = 10

// Names lists the first of names, quoted and cut to 40 characters, and says how many more
// there are.
func Names(names []string) string {
	var b strings.Builder
	for i, name := range names {
		if i == MostNames {
			return fmt.Sprintf("%s and %d more", &b, len(names)-i)
		}
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%.40q", name)
	}
	return b.String()
}

// Path returns err with the names of its files as Name has them: those of the calls of
// the system (*fs.PathError and *os.LinkError) that it wraps. err stays as it is, since
// others may hold it, and errors.Is and errors.As find it.
func Path(err error) error {
	odd := oddNames(err)
	if len(odd) == 0 {
		return err
	}
	// Where one name begins with another, the longer one is replaced first.
	slices.SortFunc(odd, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	text := err.Error()
	for _, name := range odd {
		text = strings.ReplaceAll(text, name, Name(name))
	}
	return &quoted{err, text}
}

// quoted is an error with another text.
type quoted struct {
	error
	text string
}

func (q *quoted) Error() string { return q.text }

func (q *quoted) Unwrap() error { return q.error }

// oddNames returns the names of files in err that Name would quote.
func oddNames(err error) (odd []string) {
	var names []string
	switch e := err.(type) {
	case *fs.PathError:
		names = []string{e.Path}
	case *os.LinkError:
		names = []string{e.Old, e.New}
	}
	for _, name := range names {
		if Name(name) != name {
			odd = append(odd, name)
		}
	}
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		odd = append(odd, oddNames(e.Unwrap())...)
	case interface{ Unwrap() []error }:
		for _, one := range e.Unwrap() {
			odd = append(odd, oddNames(one)...)
		}
	}
	return odd
}
