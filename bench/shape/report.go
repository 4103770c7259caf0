package shape

import (
	"fmt"
	"slices"
	"strings"
)

// Figure is one measure of a tree.
type Figure struct {
	Name  string
	Value float64
	Unit  string
	Limit float64 // the largest value that is in order; 0: no limit
	// Where to look: what breaks the limit, or the largest; each begins with a path.
	Where []string
}

// OK reports whether the figure is within its limit.
func (f Figure) OK() bool { return f.Limit < 0 && f.Value == 0 || f.Limit == 0 || f.Value <= f.Limit }

// None is the limit of figures that must be 0.
const None = -1

// Limits of the tree.
const (
	maxUp       = 20  // percent of the arrows between files of a package that point up
	maxFields   = 30  // of a struct type
	maxMethods  = 40  // of a type
	maxFunction = 70  // lines of a function, 99th percentile
	maxVague    = 0.3 // per 1,000 words of comments
	minArrows   = 20  // packages with fewer say nothing about direction
)

// exempt are the types that may be larger, and why.
var exempt = map[string]string{
	"tensor.Tensor": "its methods are the operations, one each",
}

// Measure reads the tree below root and returns its figures, always in the same order.
func Measure(root string) ([]Figure, error) {
	t, err := readTree(root)
	if err != nil {
		return nil, err
	}
	all, code := t.lines()
	out := []Figure{
		{Name: "hand-written Go, tests apart", Value: float64(all), Unit: "lines"},
		{Name: "the same, without comments and blanks", Value: float64(code), Unit: "lines"},
		{Name: "assembly", Value: float64(t.assembly), Unit: "lines"},
		t.internal(),
		t.bothWays(),
		t.worstArrows(),
	}
	out = append(out, t.largest()...)
	return append(out, t.language()...), nil
}

// internal counts packages that only their parent's tree may import.
func (t *tree) internal() Figure {
	f := Figure{Name: "internal packages", Unit: "packages"}
	for pkg := range t.packages() {
		if strings.Contains("/"+pkg+"/", "/internal/") {
			f.Value++
			f.Where = append(f.Where, pkg)
		}
	}
	slices.Sort(f.Where)
	return f
}

// bothWays counts pairs of top-level folders that import each other.
func (t *tree) bothWays() Figure {
	imports := map[[2]string]bool{}
	for _, f := range t.files {
		if f.test || !f.own {
			continue
		}
		from, _, _ := strings.Cut(f.pkg, "/")
		for _, i := range f.ast.Imports {
			path := strings.Trim(i.Path.Value, `"`)
			if at := strings.Index(path, "ringside/"); at >= 0 {
				to, _, _ := strings.Cut(path[at+len("ringside/"):], "/")
				imports[[2]string{from, to}] = from != to
			}
		}
	}
	f := Figure{Name: "pairs of folders that import each other", Unit: "pairs", Limit: None}
	for pair, ok := range imports {
		if ok && pair[0] < pair[1] && imports[[2]string{pair[1], pair[0]}] {
			f.Value++
			f.Where = append(f.Where, pair[0]+" and "+pair[1])
		}
	}
	slices.Sort(f.Where)
	return f
}

// worstArrows returns the package with the largest share of arrows up.
func (t *tree) worstArrows() Figure {
	f := Figure{Name: "arrows up between files, worst package", Unit: "%", Limit: maxUp}
	type row struct {
		pkg   string
		share float64
	}
	var rows []row
	for pkg, files := range t.packages() {
		if bad, all := up(arrowsOf(files)); all >= minArrows {
			rows = append(rows, row{pkg, 100 * float64(bad) / float64(all)})
		}
	}
	slices.SortFunc(rows, func(a, b row) int {
		return 2*int(b.share*1000-a.share*1000) + strings.Compare(a.pkg, b.pkg)
	})
	for i, r := range rows {
		if i == 0 {
			f.Value = r.share
		}
		f.Where = append(f.Where, fmt.Sprintf("%s %.0f %%", r.pkg, r.share))
	}
	return f
}

// largest returns the figures of types and functions.
func (t *tree) largest() []Figure {
	fields := Figure{Name: "fields of the largest type", Unit: "fields", Limit: maxFields}
	methods := Figure{Name: "methods of the largest type", Unit: "methods", Limit: maxMethods}
	for _, s := range t.types() {
		if _, ok := exempt[s.name]; ok {
			continue
		}
		if fields.Value = max(fields.Value, float64(s.fields)); s.fields > maxFields {
			fields.Where = append(fields.Where, fmt.Sprintf("%s %d", s.name, s.fields))
		}
		if methods.Value = max(methods.Value, float64(s.methods)); s.methods > maxMethods {
			methods.Where = append(methods.Where, fmt.Sprintf("%s %d", s.name, s.methods))
		}
	}
	long := Figure{Name: "function length, 99th percentile", Unit: "lines", Limit: maxFunction}
	all := t.functions()
	if len(all) > 0 {
		long.Value = float64(all[len(all)/100].lines)
	}
	for _, fn := range all[:min(len(all), 5)] {
		long.Where = append(long.Where, fmt.Sprintf("%s: %d", fn.at, fn.lines))
	}
	return []Figure{fields, methods, long}
}

// language returns the figures of comments.
func (t *tree) language() []Figure {
	var l language
	for _, f := range t.files {
		if !f.generated {
			l.read(t, f)
		}
	}
	percent := func(n, of int) float64 { return 100 * float64(n) / float64(max(1, of)) }
	return []Figure{
		{Name: "comment lines", Value: float64(l.lines), Unit: "lines"},
		{Name: fmt.Sprintf("comment lines over %d columns", maxColumns), Value: float64(l.wide), Unit: "lines", Limit: None, Where: l.examples["wide"]},
		{Name: "the same, share of comment lines", Value: percent(l.wide, l.lines), Unit: "%"},
		{Name: "sentences that open with What or Who", Value: float64(l.openings), Unit: "sentences", Limit: None, Where: l.examples["opening"]},
		{Name: "who, whoever, somebody and the like", Value: 1000 * float64(l.vague) / float64(max(1, l.words)), Unit: "per 1,000 words", Limit: maxVague, Where: l.examples["vague"]},
		{Name: "private metaphors in comments", Value: float64(l.metaphors), Unit: "words", Limit: None, Where: l.examples["metaphor"]},
		{Name: "timings of processors in comments", Value: float64(l.timings), Unit: "places", Limit: None, Where: l.examples["timing"]},
	}
}
