package command

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// helpColumns is the most columns of a line of help: a terminal has as many.
const helpColumns = 80

// wrapHelp has the help and the usage of root and of all its commands fit helpColumns.
func wrapHelp(root *cobra.Command) {
	root.SetUsageFunc(func(c *cobra.Command) error {
		_, err := io.WriteString(c.OutOrStderr(), usageOf(c))
		return err
	})
	root.SetHelpFunc(func(c *cobra.Command, _ []string) {
		text := fit(strings.TrimSpace(cmp.Or(c.Long, c.Short)), helpColumns) + "\n\n"
		_, _ = io.WriteString(c.OutOrStdout(), text+usageOf(c)) // a pager may be gone
	})
}

// usageOf returns how c is called, its commands and its flags, as cobra's template has
// them.
func usageOf(c *cobra.Command) string {
	var b strings.Builder
	b.WriteString("Usage:\n")
	if c.Runnable() {
		fmt.Fprintf(&b, "  %s\n", c.UseLine())
	}
	if c.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "  %s [command]\n\nAvailable Commands:\n", c.CommandPath())
		for _, sub := range c.Commands() {
			if sub.IsAvailableCommand() || sub.Name() == "help" {
				line := fmt.Sprintf("  %-*s %s", sub.NamePadding(), sub.Name(), sub.Short)
				b.WriteString(fit(line, helpColumns) + "\n")
			}
		}
	}
	for _, f := range []struct {
		title string
		flags *pflag.FlagSet
	}{{"Flags", c.LocalFlags()}, {"Global Flags", c.InheritedFlags()}} {
		if f.flags.HasAvailableFlags() {
			fmt.Fprintf(&b, "\n%s:\n%s", f.title, f.flags.FlagUsagesWrapped(helpColumns))
		}
	}
	if c.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "\nUse \"%s [command] --help\" for more information about a command.\n", c.CommandPath())
	}
	return b.String()
}

// fit brings text into so many columns. Lines that begin at the margin are paragraphs,
// whose words it spreads anew. Of an indented line that is too long, such as a name and
// what it means two or more spaces further on, it puts the rest under what it means, or
// all of that on lines below where the name is long. It leaves one without such a gap as
// it is, for it is a command to copy. A tab becomes two spaces.
func fit(text string, columns int) string {
	var out, paragraph []string
	end := func() {
		if len(paragraph) > 0 {
			out = append(out, spread(strings.Fields(strings.Join(paragraph, " ")), 0, columns)...)
		}
		paragraph = nil
	}
	for line := range strings.SplitSeq(strings.ReplaceAll(text, "\t", "  "), "\n") {
		if line != "" && line[0] != ' ' {
			paragraph = append(paragraph, line)
			continue
		}
		end()
		at := len(line) - len(strings.TrimLeft(line, " "))
		gap := strings.LastIndex(line[at:], "  ")
		if utf8.RuneCountInString(line) <= columns || gap < 0 {
			out = append(out, line)
			continue
		}
		out = append(out, hang(line, at, at+gap, columns)...)
	}
	end()
	return strings.Join(out, "\n")
}

// hang returns line, which is indented by at, with the part behind the gap below the
// part's beginning, or on lines of its own if the part before is long.
func hang(line string, at, gap, columns int) []string {
	means := strings.TrimLeft(line[gap:], " ")
	name := strings.TrimSuffix(line, means)
	n := utf8.RuneCountInString(name)
	if n > columns/2 {
		return append([]string{strings.TrimRight(name, " ")}, spread(strings.Fields(means), at+4, columns)...)
	}
	rest := spread(strings.Fields(means), n, columns)
	rest[0] = name + strings.TrimLeft(rest[0], " ")
	return rest
}

// writeFitted writes a table for w. On a terminal, of a line that is too long for it the
// rest of the last cell goes below its beginning. Programs that read get whole lines.
func writeFitted(w io.Writer, table string) error {
	if columns, ok := terminal(w); ok {
		table = fitTable(table, columns)
	}
	_, err := io.WriteString(w, table)
	return err
}

// fitTable brings the lines of a table, whose cells are two or more spaces apart, into so
// many columns.
func fitTable(table string, columns int) string {
	var out []string
	for line := range strings.SplitSeq(table, "\n") {
		at := len(line) - len(strings.TrimLeft(line, " "))
		gap := strings.LastIndex(line[at:], "  ")
		switch {
		case utf8.RuneCountInString(line) <= columns:
			out = append(out, line)
		case gap < 0:
			out = append(out, spread(strings.Fields(line), at, columns)...)
		default:
			out = append(out, hang(line, at, at+gap, columns)...)
		}
	}
	return strings.Join(out, "\n")
}

// spread returns lines with the words, of at most so many columns, if no word is longer.
func spread(words []string, indent, columns int) (lines []string) {
	margin := strings.Repeat(" ", indent)
	line := margin
	for _, w := range words {
		switch {
		case line == margin:
			line += w
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(w) <= columns:
			line += " " + w
		default:
			lines, line = append(lines, line), margin+w
		}
	}
	return append(lines, line)
}
