package command

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

// TestHelpFits: no line of any command's help is longer than a terminal.
func TestHelpFits(t *testing.T) {
	root := NewRootCommand()
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	var visit func(c *cobra.Command) int
	visit = func(c *cobra.Command) int {
		var out strings.Builder
		c.SetOut(&out)
		c.InitDefaultHelpFlag()
		if err := c.Help(); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out.String(), "Usage:") {
			t.Errorf("%s: %q has no usage", c.CommandPath(), &out)
		}
		for line := range strings.SplitSeq(out.String(), "\n") {
			if n := utf8.RuneCountInString(strings.ReplaceAll(line, "\t", "        ")); n > helpColumns {
				t.Errorf("%s: %d columns: %s", c.CommandPath(), n, line)
			}
		}
		n := 1
		for _, sub := range c.Commands() {
			n += visit(sub)
		}
		return n
	}
	if n := visit(root); n < 30 {
		t.Errorf("%d commands", n)
	}
}

func TestFit(t *testing.T) {
	const text = `One paragraph of
two lines.

Another, with café and résumé:
  short  stays
  name   is a longer meaning
	ls -l a b c  # names of files
  a-command --without --a-gap
The end.`
	const want = `One paragraph of two
lines.

Another, with café
and résumé:
  short  stays
  name   is a longer
         meaning
  ls -l a b c
      # names of
      files
  a-command --without --a-gap
The end.`
	if got := fit(text, 20); got != want {
		t.Errorf("%s\nexpected\n%s", got, want)
	}
}

func TestFitTable(t *testing.T) {
	const table = "ok    memory  much of it\nwarn  pages   never in any of these\n              -> as root: echo advise > /sys/kernel/mm/x\n"
	const want = "ok    memory  much of it\nwarn  pages   never in any\n              of these\n              -> as root:\n              echo advise >\n              /sys/kernel/mm/x\n"
	if got := fitTable(table, 28); got != want {
		t.Errorf("%q, expected %q", got, want)
	}
	if got := fitTable(table, 80); got != table {
		t.Errorf("%q, expected %q", got, table)
	}
}
