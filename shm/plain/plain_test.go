package plain

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestName quotes names with characters that do not print, and leaves others as they are.
func TestName(t *testing.T) {
	for name, want := range map[string]string{
		"a b.csv": "a b.csv", "Müll/表.txt": "Müll/表.txt", "": "", `a"b\c`: `a"b\c`,
		"a\nb": `"a\nb"`, "\x1b[31m": `"\x1b[31m"`, "\xff": `"\xff"`, "a\u202eb": `"a\u202eb"`, "a\tb": `"a\tb"`,
	} {
		if got := Name(name); got != want {
			t.Errorf("%q: %s, expected %s", name, got, want)
		}
	}
}

// TestNames lists names up to its bound.
func TestNames(t *testing.T) {
	long := strings.Repeat("ä", 50)
	for want, names := range map[string][]string{
		"":                                 nil,
		`"a\nb"`:                           {"a\nb"},
		`"a", "` + long[:80] + `"`:         {"a", long},
		`"0"` + strings.Repeat(`, "0"`, 9): slices.Repeat([]string{"0"}, 10),
		`"0"` + strings.Repeat(`, "0"`, 9) + " and 2 more": slices.Repeat([]string{"0"}, 12),
	} {
		if got := Names(names); got != want {
			t.Errorf("%q: %s, expected %s", names, got, want)
		}
	}
}

// TestPath has errors of the system about files whose names hold control characters: by
// themselves, joined, and in errors that already have a text.
func TestPath(t *testing.T) {
	odd := filepath.Join(t.TempDir(), "a\x1b[31m\nb")
	_, open := os.Open(odd)
	rename := os.Rename(odd, odd+"2")
	for name, err := range map[string]error{
		"open": open, "rename": rename, "joined": errors.Join(os.Remove(odd), rename), "wrapped": fmt.Errorf("weights: %w", open), "twice": Path(open),
	} {
		was := err.Error()
		got := Path(err)
		if !errors.Is(got, fs.ErrNotExist) || strings.Contains(got.Error(), "\x1b") || strings.Contains(got.Error(), "m\nb") || !strings.Contains(got.Error(), `a\x1b[31m\nb`) {
			t.Errorf("%s: %q, expected the name quoted", name, got)
		}
		if err.Error() != was {
			t.Errorf("%s: the error was %q, is %q, expected that it stays", name, was, err)
		}
	}
	if got := Path(rename).Error(); strings.Count(got, `31m\nb`) != 2 || !strings.Contains(got, `\nb2"`) {
		t.Errorf("%s, expected both names quoted", got)
	}
	if err := errors.New("a\nb"); Path(err) != err || Path(nil) != nil {
		t.Error("an error without a file has changed")
	}
}

// TestCount wants one of a thing, and any other number of things.
func TestCount(t *testing.T) {
	for want, got := range map[string]string{
		"1 row": Count(1, "row"), "0 rows": Count(0, "row"), "2 classes": Count(2, "class"), "1 class": Count(uint64(1), "class"), "-1 rows": Count(int64(-1), "row"),
	} {
		if got != want {
			t.Errorf("%q, expected %q", got, want)
		}
	}
}
