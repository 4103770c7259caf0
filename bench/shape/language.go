package shape

import (
	"fmt"
	"go/ast"
	"regexp"
	"strings"
)

// maxColumns is the last column of a comment, with tabs of four.
const maxColumns = 90

var (
	opening  = regexp.MustCompile(`(?:^|[.:!?]\s+)(What|Who)\b`)
	vague    = regexp.MustCompile(`(?i)\b(who|whoever|somebody|someone|anybody|nobody|everybody)\b`)
	metaphor = regexp.MustCompile(`(?i)\b(widow\w*|mourn\w*|grie(f|v)\w*|obituar\w*|bur(y|ies|ied)|favou?rs?)\b`)
	timing   = regexp.MustCompile(`\b(Zen ?\d|Ice Lake|Sapphire Rapids|Emerald Rapids|Skylake|EPYC|Xeon|[0-9.]+ (ns|nanoseconds|cycles))\b`)
	word     = regexp.MustCompile(`[A-Za-z][A-Za-z'-]*`)
)

// language counts what comments say and how.
type language struct {
	lines, wide         int
	sentences, openings int
	words, vague        int
	metaphors, timings  int
	examples            map[string][]string // kind of finding to "file:line: text"
}

func (l *language) found(kind, at, text string) {
	if l.examples == nil {
		l.examples = map[string][]string{}
	}
	l.examples[kind] = append(l.examples[kind], at+": "+strings.TrimSpace(text))
}

// read adds the comments of one file. Directives such as //go:build and generated files
// don't count.
func (l *language) read(t *tree, f *file) {
	source := strings.Split(string(f.text), "\n")
	for _, group := range f.ast.Comments {
		for _, c := range group.List {
			if strings.HasPrefix(c.Text, "//go:") || strings.HasPrefix(c.Text, "// Output:") {
				continue
			}
			at := t.fset.Position(c.Pos()).Line
			for i, text := range strings.Split(c.Text, "\n") {
				where := fmt.Sprintf("%s:%d", f.path, at+i)
				l.lines++
				if columns(source[at+i-1]) > maxColumns {
					l.wide++
					l.found("wide", where, text)
				}
			}
		}
		l.prose(fmt.Sprintf("%s:%d", f.path, t.fset.Position(group.Pos()).Line), group)
	}
}

// prose adds the sentences and words of one comment. Indented lines are code or drawings.
func (l *language) prose(where string, group *ast.CommentGroup) {
	var text []string
	for _, line := range strings.Split(group.Text(), "\n") {
		if !strings.HasPrefix(line, "\t") && !strings.HasPrefix(line, "  ") {
			text = append(text, line)
		}
	}
	prose := strings.Join(text, " ")
	l.sentences += 1 + strings.Count(prose, ". ")
	l.words += len(word.FindAllString(prose, -1))
	for _, finding := range []struct {
		kind    string
		pattern *regexp.Regexp
		count   *int
	}{{"opening", opening, &l.openings}, {"vague", vague, &l.vague}, {"metaphor", metaphor, &l.metaphors}, {"timing", timing, &l.timings}} {
		for _, m := range finding.pattern.FindAllStringIndex(prose, -1) {
			*finding.count++
			l.found(finding.kind, where, prose[m[0]:min(len(prose), m[0]+70)])
		}
	}
}

// columns returns the width of a line with tabs of four.
func columns(line string) int {
	n := 0
	for _, r := range line {
		if r == '\t' {
			n += 4 - n%4
		} else {
			n++
		}
	}
	return n
}
