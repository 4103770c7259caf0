package launch

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/ringside-go/ringside/collective/rendezvous"
)

// TestWhoBegan: the error names the rank whose failure began it, though another ended
// first.
func TestWhoBegan(t *testing.T) {
	// over waits until the launcher has seen a rank end whose process is in a file of
	// that name.
	const over = `until [ -e %[1]d ]; do sleep 0.01; done; while kill -s 0 $(cat %[1]d) 2>/dev/null; do sleep 0.01; done; `
	const here = `echo $$ >pid$RANK; mv pid$RANK $RANK; `
	for name, c := range map[string]struct {
		ranks [2]string
		want  RankError
	}{
		"named by the other": {
			[2]string{`printf '{"rank":1,"text":"left"}' >$RINGSIDE_VERDICT; ` + here + "exit 3", fmt.Sprintf(over, 0) + "exit 7"},
			RankError{Rank: 1, Code: 7, How: "exit status 7"},
		},
		"stuck": {
			[2]string{`printf '{"rank":1,"stuck":true,"text":"no answer"}' >$RINGSIDE_VERDICT; exit 3`, "exec sleep 1000"},
			RankError{Rank: 0, Code: 3, How: "exit status 3", Because: &Because{1, "no answer"}},
		},
		"its output is held open": {
			[2]string{fmt.Sprintf(over, 1) + "exit 3", here + "sleep 1000 & kill -9 $$"},
			RankError{Rank: 1, Code: 128 + int(syscall.SIGKILL), How: "signal: killed"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			o, out := options(t, 2, fmt.Sprintf("cd %s; if [ $RANK = 0 ]; then %s; fi; %s", t.TempDir(), c.ranks[0], c.ranks[1]))
			_, err := run(t, o)
			c.want.Host = Localhost
			var failed *RankError
			if !errors.As(err, &failed) || !reflect.DeepEqual(*failed, c.want) {
				t.Errorf("%v, expected %v: %s", err, &c.want, out)
			}
		})
	}
}

func TestBlame(t *testing.T) {
	says := func(rank int, text string) rendezvous.Verdict { return rendezvous.Verdict{Rank: rank, Text: text} }
	for name, c := range map[string]struct {
		failed  []int // in order; above 100: by a signal
		says    map[int]rendezvous.Verdict
		want    string
		awaited int
	}{
		"only one":           {[]int{2}, nil, "rank 2 on a: 1", -1},
		"several":            {[]int{2, 0, 3}, nil, "rank 2 on a: 1; before any was asked to end failed, too: 0, 3", -1},
		"a signal":           {[]int{2, 101}, nil, "rank 1 on a: 137", -1},
		"names nobody":       {[]int{2, 1}, map[int]rendezvous.Verdict{2: says(0, "gone")}, "rank 1 on a: 1", 0},
		"names one of them":  {[]int{2, 1}, map[int]rendezvous.Verdict{2: says(1, "gone")}, "rank 1 on a: 1", -1},
		"names one of those": {[]int{102, 1}, map[int]rendezvous.Verdict{2: says(1, "gone")}, "rank 1 on a: 1", -1},
		"most name":          {[]int{0, 2, 1, 3}, map[int]rendezvous.Verdict{2: says(0, "x"), 0: says(2, "x"), 1: says(2, "x"), 3: says(2, "x")}, "rank 2 on a: 1", -1},
		"names one that lives": {[]int{0, 1}, map[int]rendezvous.Verdict{0: says(2, "gone"), 1: says(2, "gone")},
			"rank 0 on a: 1, because of rank 2: gone", 2},
		"one because of another": {[]int{0, 3, 101, 2}, map[int]rendezvous.Verdict{0: says(1, "gone"), 2: says(0, "left"), 3: says(0, "left")}, "rank 1 on a: 137", -1},
		"because of one that lives, as another says": {[]int{0, 3}, map[int]rendezvous.Verdict{0: says(1, "gone"), 3: says(0, "left")},
			"rank 0 on a: 1, because of rank 1: gone", 1},
		"names one that hangs": {[]int{0}, map[int]rendezvous.Verdict{0: {Rank: 2, Stuck: true, Text: "late"}},
			"rank 0 on a: 1, because of rank 2: late", -1},
	} {
		b := blame{ended: map[int]bool{}}
		b.hear(c.says, 4)
		for _, r := range c.failed {
			code := 1
			if r > 100 {
				r, code = r-100, 137
			}
			b.ended[r] = true
			b.failed = append(b.failed, &rank{place: place{rank: r}, err: &RankError{Rank: r, Host: "a", Code: code, How: fmt.Sprint(code)}})
		}
		if got := b.awaited(); got != c.awaited {
			t.Errorf("%s: rank %d is awaited, expected %d", name, got, c.awaited)
		}
		before := slices.Clone(b.failed)
		if got := b.verdict().Error(); got != "launch: rank failed: "+c.want || !slices.Equal(before, b.failed) {
			t.Errorf("%s: %q, expected %q", name, got, c.want)
		}
	}
}

// TestSaysOnce: an error names the ranks that said the same once, also where the text of
// the first says which of them it heard it from.
func TestSaysOnce(t *testing.T) {
	const text = "calls do not match: rank 1 is in all-reduce #1 (says rank 2); see FILE"
	for want, by := range map[string][]int{
		"launch: rank failed: rank 1 on a: exit status 1: calls do not match: rank 1 is in all-reduce #1; see FILE (the same from rank 0, 2)": {1, 0, 2},
		"launch: rank failed: rank 1 on a: exit status 1; rank 0: " + text + " (the same from rank 3)":                                        {0, 3},
		"launch: rank failed: rank 1 on a: exit status 1: " + text:                                                                            {1},
	} {
		e := &RankError{Rank: 1, Host: "a", How: "exit status 1", Said: text, SaidBy: by}
		if e.Error() != want {
			t.Errorf("said by %v: %q, expected %q", by, e.Error(), want)
		}
	}
}

// TestLastWords: of last lines about one failure Run passes on none; its error has the
// first one's, and names the ranks that wrote the others. Lines before them, and those
// about another failure, are passed on.
func TestLastWords(t *testing.T) {
	const verdict = `printf '{"rank":2,"text":"%s"}' >$RINGSIDE_VERDICT; `
	const news = `echo "main: step $RANK: collective: calls do not match" >&2; `
	for name, c := range map[string]struct {
		ranks [3]string
		says  string
		out   []string
	}{
		"of all": {
			[3]string{
				"echo first >&2; " + fmt.Sprintf(verdict, "odd") + news + "exit 1",
				fmt.Sprintf(verdict, "odd") + news + "exit 1",
				fmt.Sprintf(verdict, "odd") + news + "exit 1",
			},
			"rank failed: rank 2 on localhost: exit status 1: main: step 2: collective: calls do not match (the same from rank 0, 1)",
			[]string{"[0] first"},
		},
		"not of the one that began": {
			[3]string{fmt.Sprintf(verdict, "gone") + news + "exit 1", fmt.Sprintf(verdict, "gone") + news + "exit 1", "kill -9 $$"},
			"rank failed: rank 2 on localhost: signal: killed; rank 0: main: step 0: collective: calls do not match (the same from rank 1)",
			[]string{""},
		},
		"about another, or not the last": {
			[3]string{
				fmt.Sprintf(verdict, "odd") + news + "exit 1",
				fmt.Sprintf(verdict, "gone") + news + "exit 1",
				fmt.Sprintf(verdict, "odd") + news + "echo bye >&2; exit 1",
			},
			"rank failed: rank 2 on localhost: exit status 1; rank 0: main: step 0: collective: calls do not match",
			[]string{"[1] main: step 1: collective: calls do not match", "[2] bye", "[2] main: step 2: collective: calls do not match"},
		},
		"without a verdict": {
			[3]string{"exec sleep 1000", "exec sleep 1000", news + "exit 1"},
			"rank failed: rank 2 on localhost: exit status 1",
			[]string{"[2] main: step 2: collective: calls do not match"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			// The ranks end when all have written, so that none is ended before.
			dir := t.TempDir()
			script := "cd " + dir + "; end() { touch $RANK; until [ -e 0 ] && [ -e 1 ] && [ -e 2 ]; do sleep 0.01; done; }; case $RANK in "
			for r, s := range c.ranks {
				if name != "without a verdict" {
					if i := strings.LastIndex(s, "exit 1"); i >= 0 {
						s = s[:i] + "end; " + s[i:]
					} else {
						s = "end; " + s
					}
				}
				script += fmt.Sprintf("%d) %s ;; ", r, s)
			}
			o, out := options(t, 3, script+"esac")
			o.Grace = guard
			sum, err := run(t, o)
			if err == nil || err.Error() != "launch: "+c.says || len(sum.Failures) != 1 {
				t.Errorf("%v, expected %s", err, c.says)
			}
			if got := out.lines(); !slices.Equal(got, c.out) {
				t.Errorf("%q, expected %q", got, c.out)
			}
		})
	}
}

// TestHeldBack: a line that is held back goes on by itself, or before the next one.
func TestHeldBack(t *testing.T) {
	out := newSaid()
	l := &lines{mu: new(sync.Mutex), to: out, prefix: "> ", news: func(b []byte) bool { return bytes.HasPrefix(b, newsMark) }}
	_, _ = l.Write([]byte("collective: a\ncollective: b\nc\ncollective: d\n"))
	out.await(t, 4)
	if want := "> collective: a\n> collective: b\n> c\n> collective: d\n"; out.String() != want {
		t.Errorf("%q, expected %q", out.String(), want)
	}
	if last := l.last(); last != "" {
		t.Errorf("%q is held back after it was passed on", last)
	}
	_, _ = l.Write([]byte("collective: e"))
	l.close()
	if last := l.last(); last != "collective: e" {
		t.Errorf("%q is held back", last)
	}
}
