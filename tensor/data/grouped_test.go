package data

import (
	"strings"
	"testing"
)

// TestUngrouped has numbers as people write them.
func TestUngrouped(t *testing.T) {
	for text, want := range map[string]string{
		"1,234": "1234", "-1,234,567.50": "-1234567.50", "1.234,5": "1234.5", "1.234.567": "1234567", "1 234,5": "1234.5",
		"1\u00a0234": "1234", "1'234.5": "1234.5", "1_234": "1234", "12,5": "12.5", "1,234.": "1234",
		"1234": "", "1.234": "", "1,2,3": "", "red": "", "": "", "1,23a": "", "2020-01-02": "", "12 34": "",
		"0,125": "0.125", "-0,250": "-0.250", "0,5": "0.5", "00,125": "00.125", "0.125,5": "", "10,125": "10125",
	} {
		if got := ungrouped(text, unclear); got != want {
			t.Errorf("%q: %q, expected %q", text, got, want)
		}
	}
}

// TestNotes reads tables that are not what they look like: they have a note.
func TestNotes(t *testing.T) {
	for _, c := range []struct {
		text, want string
		named      []string
	}{
		{"a,b,k\n1,NA,x\n1,\"1,234\",x\n2,\"12,345\",y\n", `column "b" was taken for texts, but looks like numbers with thousands separators, first in line 3: "1,234"; if it has numbers, write that one as 1234, and so on`, nil},
		{"a;b;k\n1;0,5;x\n1;1,5;x\n", `numbers with decimal commas, first in line 2: "0,5"; if it has numbers, write that one as 0.5`, nil},
		{"a;b;k\n1;1,234;x\n1;0,5;x\n1;2,25;y\n", `numbers with decimal commas, first in line 2: "1,234"; if it has numbers, write that one as 1.234, and so on`, nil},
		{"a;b;k\n1;1,234;x\n1;2,250;y\n", `numbers with commas, first in line 2: "1,234"; if it has numbers, write that one as 1234 if the comma separates thousands, or as 1.234 if it is before decimals, and so on`, nil},
		{"a;b;k\n1;1,234;x\n1;2,250,000;y\n", `numbers with thousands separators, first in line 2: "1,234"; if it has numbers, write that one as 1234, and`, nil},
		{"a;b;k\n1;1,234;x\n1;2.250,5;y\n", `numbers with decimal commas, first in line 2: "1,234"; if it has numbers, write that one as 1.234, and`, nil},
		{"a,b,k\n1,\"1,234\",x\n1,\"0,250\",y\n", `numbers with decimal commas, first in line 2: "1,234"; if it has numbers, write that one as 1.234, and`, nil},
		{"a,b,k\n1,\"1,234,567\",x\n1,\"0,250\",y\n", `first in line 2: "1,234,567"; if it has numbers, write that one as 1234567, and`, nil},
		{"a,b,k\n1,\"1,234\",x\n1,none at all,x\n", "", nil},
		{"a,b,k\n1,\"1,234\",x\n", "", []string{"b"}},
		{"1,2,x\n3,4,y\n", "line 1 of t.csv was taken for the first row, since it does not look like names of columns: the columns are called c1 to c3", nil},
		{"a,b,k\n3,4,y\n", "", nil},
	} {
		o := &TableOptions{Categories: append(c.named, AllTexts), OneHot: true}
		if strings.Contains(c.text, ";") {
			o.Comma = ';'
		}
		table := read(t, c.text, o)
		if got := table.String(); c.want == "" && table.Notes != nil || !strings.Contains(got, c.want) {
			t.Errorf("%q:\n%s\nexpected %q", c.text, got, c.want)
		}
		if table.Form().Notes != nil {
			t.Errorf("%q: a form has notes about rows", c.text)
		}
		// Rows of that form have been seen in training: they have no note.
		if like := read(t, c.text, &TableOptions{Like: table.Form(), Comma: o.Comma}); like.Notes != nil {
			t.Errorf("%q: %q of a table in the form of another", c.text, like.Notes)
		}
	}
}

// TestCommas reads tables with a number that is none: the error says how to write it.
func TestCommas(t *testing.T) {
	for _, c := range []struct {
		text, says string
		o          TableOptions
	}{
		{"a,k\n1,\"0,125\"\n2,\"0,250\"\n", `"0,125", expected a finite number (the label is column "k"); write it as 0.125, and others`, TableOptions{Regression: true}},
		{"a,k\n1,\"1,125\"\n2,\"0,250\"\n", "; write it as 1125, and others", TableOptions{Regression: true}},
		{"a;k\n1;1,125\n", "; write it as 1125 if the comma separates thousands, or as 1.125 if it is before decimals, and others", TableOptions{Regression: true, Comma: ';'}},
		{"a;k\n1;10,12\n", "; write it as 10.12, and others", TableOptions{Regression: true, Comma: ';'}},
		{"a;k\n1,125;x\n0,5;x\n7;y\n", "which is no number here: write it as 1.125; correct it", TableOptions{Categories: []string{AllTexts}, Comma: ';'}},
	} {
		if _, err := ReadCSV(strings.NewReader(c.text), "t.csv", &c.o); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%q: %v, expected %q", c.text, err, c.says)
		}
	}
}
