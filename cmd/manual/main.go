// Command manual writes what a release of ringside has beside its program: a manual page
// for each command, and completions for bash, zsh and fish. It is a module of its own, so
// that what makes the pages reaches no user of ringside's packages. `make release` runs
// it.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/ringside-go/ringside/cmd/ringside/command"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: manual FOLDER")
		os.Exit(2)
	}
	if err := write(os.Args[1], command.NewRootCommand()); err != nil {
		fmt.Fprintln(os.Stderr, "manual:", err)
		os.Exit(1)
	}
}

// write makes the files below dir, where the system's tools look for them below /usr.
func write(dir string, root *cobra.Command) error {
	pages := filepath.Join(dir, "share/man/man1")
	if err := os.MkdirAll(pages, 0o755); err != nil {
		return err
	}
	eachCommand(root, func(c *cobra.Command) { c.Long = withBlocks(c.Long) })
	root.DisableAutoGenTag = true // no date: two builds of one commit are equal
	header := &doc.GenManHeader{Title: "RINGSIDE", Section: "1", Source: "ringside", Manual: "ringside"}
	if err := doc.GenManTree(root, header, pages); err != nil {
		return err
	}
	for name, generate := range map[string]func(string) error{
		"share/bash-completion/completions/ringside":    func(f string) error { return root.GenBashCompletionFileV2(f, true) },
		"share/zsh/site-functions/_ringside":            root.GenZshCompletionFile,
		"share/fish/vendor_completions.d/ringside.fish": func(f string) error { return root.GenFishCompletionFile(f, true) },
	} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := generate(file); err != nil {
			return err
		}
	}
	return nil
}

// eachCommand calls f with c and all commands below it.
func eachCommand(c *cobra.Command, f func(*cobra.Command)) {
	f(c)
	for _, sub := range c.Commands() {
		eachCommand(sub, f)
	}
}

// withBlocks returns the text of a command with its indented lines as blocks of Markdown,
// which man pages are made of: it would fill them like other text.
func withBlocks(text string) string {
	var b strings.Builder
	within := false
	for line := range strings.SplitSeq(text, "\n") {
		indented := strings.HasPrefix(line, " ") || strings.HasPrefix(line, "\t")
		if line != "" && indented != within {
			b.WriteByte('\n')
			within = indented
		}
		if indented {
			b.WriteString("    ")
		}
		b.WriteString(line + "\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}
