package data

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

var (
	// groupedNumber is a number whose digits are in groups of three with one kind of
	// separator between them: "1,234,567.8", or "1.234,5".
	groupedNumber = regexp.MustCompile(`^[+-]?[0-9]{1,3}(?:(?:,[0-9]{3})+(?:\.[0-9]*)?|(?:[ '’_\x{a0}\x{202f}][0-9]{3})+(?:[.,][0-9]*)?|(?:\.[0-9]{3})+,[0-9]*|(?:\.[0-9]{3}){2,})$`)

	// commaNumber is a number with a comma before its decimals.
	commaNumber = regexp.MustCompile(`^[+-]?[0-9]+,[0-9]+$`)
)

// ungrouped returns how a file has to write a number that people write with separators of
// thousands, or with a comma before its decimals: 1234.5 for "1,234.5". It returns "" for
// other texts.
func ungrouped(text string) string {
	switch {
	case groupedNumber.MatchString(text):
		decimals := strings.LastIndexAny(text, ".,")
		// A separator that comes twice, or a comma before three digits alone, is one of
		// thousands.
		if decimals >= 0 && (strings.Count(text, text[decimals:decimals+1]) > 1 || text[decimals] == ',' && !strings.ContainsAny(text, ". '’_\u00a0\u202f")) {
			decimals = -1
		}
		var b strings.Builder
		for i, r := range text {
			switch {
			case i == decimals:
				b.WriteByte('.')
			case r >= '0' && r <= '9' || r == '-' || r == '+':
				b.WriteRune(r)
			}
		}
		return strings.TrimSuffix(b.String(), ".")
	case commaNumber.MatchString(text):
		return strings.Replace(text, ",", ".", 1)
	}
	return ""
}

// noteGrouped adds a note to out if all texts of c look like numbers with separators, and
// no option names c as a column of texts.
func (t *tableReader) noteGrouped(c *column, out *Table) {
	how := ungrouped(c.first)
	if !c.open || how == "" || t.o.Like != nil || slices.ContainsFunc(c.texts.all, func(text string) bool {
		return !missing(text) && ungrouped(text) == ""
	}) {
		return
	}
	what := "thousands separators"
	if commaNumber.MatchString(c.first) && !groupedNumber.MatchString(c.first) {
		what = "decimal commas"
	}
	out.Notes = append(out.Notes, fmt.Sprintf("column %.40q was taken for texts, but looks like numbers with %s, first in line %d: %.40q; if it has numbers, write that one as %s and so on; if it has texts, %s says so",
		c.name, what, c.line, c.first, how, t.o.say("its name in TableOptions.Categories", "-categories "+typed(c.name))))
}
