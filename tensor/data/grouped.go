package data

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

var (
	// groupedNumber is a number whose digits are in groups of three with one kind of
	// separator between them: "1,234,567.8", or "1.234,5". The first digit is no 0, as
	// in "0,125", where the comma is before decimals.
	groupedNumber = regexp.MustCompile(`^[+-]?[1-9][0-9]{0,2}(?:(?:,[0-9]{3})+(?:\.[0-9]*)?|(?:[ '’_\x{a0}\x{202f}][0-9]{3})+(?:[.,][0-9]*)?|(?:\.[0-9]{3})+,[0-9]*|(?:\.[0-9]{3}){2,})$`)

	// commaNumber is a number with a comma before its decimals.
	commaNumber = regexp.MustCompile(`^[+-]?[0-9]+,[0-9]+$`)
)

// commas is what the commas of numbers are, as far as their texts tell.
type commas int

const (
	unclear   commas = iota // "1,234" alone
	thousands               // "1,234,567" or "1,234.5"
	decimal                 // "0,125", "2,25" or "1.234,5"
)

// commasOf returns what the commas of a number are that people write with separators. A
// number with none is unclear, too: "1 234".
func commasOf(text string) commas {
	switch grouped := groupedNumber.MatchString(text); {
	case !grouped && commaNumber.MatchString(text):
		return decimal
	case !grouped:
		return unclear
	case strings.Count(text, ",") > 1 || strings.Contains(text, ",") && strings.LastIndexByte(text, '.') > strings.IndexByte(text, ','):
		return thousands
	case strings.ContainsAny(text, ",") && strings.ContainsAny(text, ". '’_\u00a0\u202f") || strings.Count(text, ".") > 1:
		return decimal
	}
	return unclear
}

// commasOf returns what the commas of a column's texts are. Where none of them tells,
// they are of thousands, but unclear in a file with semicolons between its fields, which
// programs write where the comma is before decimals.
func (t *tableReader) commasOf(texts ...string) commas {
	var found [decimal + 1]bool
	for _, text := range texts {
		found[commasOf(text)] = true
	}
	switch {
	case found[thousands] && found[decimal]:
		return unclear
	case found[decimal]:
		return decimal
	case found[thousands] || t.o.Comma != ';':
		return thousands
	}
	return unclear
}

// ungrouped returns how a file has to write a number that people write with separators of
// thousands, or with a comma before its decimals: 1234.5 for "1,234.5". It returns "" for
// other texts. of says what the comma of "1,234" is.
func ungrouped(text string, of commas) string {
	switch {
	case groupedNumber.MatchString(text) && !(of == decimal && commaNumber.MatchString(text)):
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

// rewritten says how a file has to write a text that ungrouped takes: it has both numbers
// if the comma may be either. It returns "" for other texts. others are of the same
// column.
func (t *tableReader) rewritten(text string, others ...string) string {
	how := ungrouped(text, unclear)
	if how == "" || !commaNumber.MatchString(text) || !groupedNumber.MatchString(text) {
		return how
	}
	of := t.commasOf(others...)
	if point := ungrouped(text, decimal); of == unclear {
		return fmt.Sprintf("%s if the comma separates thousands, or as %s if it is before decimals", how, point)
	}
	return ungrouped(text, of)
}

// noteGrouped adds a note to out if all texts of c look like numbers with separators, and
// no option names c as a column of texts.
func (t *tableReader) noteGrouped(c *column, out *Table) {
	if !c.open || t.o.Like != nil || ungrouped(c.first, unclear) == "" || slices.ContainsFunc(c.texts.all, func(text string) bool {
		return !missing(text) && ungrouped(text, unclear) == ""
	}) {
		return
	}
	what := "thousands separators"
	if commaNumber.MatchString(c.first) {
		switch of := t.commasOf(c.texts.all...); {
		case of == decimal || !groupedNumber.MatchString(c.first):
			what = "decimal commas"
		case of == unclear:
			what = "commas"
		}
	}
	out.Notes = append(out.Notes, fmt.Sprintf("column %.40q was taken for texts, but looks like numbers with %s, first in line %d: %.40q; if it has numbers, write that one as %s, and so on; if it has texts, %s says so",
		c.name, what, c.line, c.first, t.rewritten(c.first, c.texts.all...), t.o.say("its name in TableOptions.Categories", "-categories "+typed(c.name))))
}
