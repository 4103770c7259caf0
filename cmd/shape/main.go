// Command shape prints the measures of package bench/shape for the tree in the current
// folder, and beside them those of an earlier revision. Run it by make shape.
package main

import (
	"flag"
	"fmt"
	"os"
	"strings"

	"github.com/ringside-go/ringside/bench/revision"
	"github.com/ringside-go/ringside/bench/shape"
)

func main() {
	base := flag.String("base", "", "a git revision to measure as well")
	most := flag.Int("most", 5, "findings to print of each figure")
	in := flag.String("in", "", "print findings only where the path begins so")
	flag.Parse()
	if err := run(*base, *in, *most); err != nil {
		fmt.Fprintln(os.Stderr, "shape:", err)
		os.Exit(1)
	}
}

func run(base, in string, most int) error {
	now, err := shape.Measure(".")
	if err != nil {
		return err
	}
	var before []shape.Figure
	if base != "" {
		dir, err := revision.Checkout(base)
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		if before, err = shape.Measure(dir); err != nil {
			return err
		}
	}
	bad := 0
	for i, f := range now {
		line := fmt.Sprintf("%-42s %8.6g", f.Name, f.Value)
		if before != nil {
			line = fmt.Sprintf("%-42s %8.6g  before %8.6g", f.Name, f.Value, before[i].Value)
		}
		switch {
		case f.Limit == shape.None:
			line += "  limit 0"
		case f.Limit > 0:
			line += fmt.Sprintf("  limit %g", f.Limit)
		}
		fmt.Println(line, f.Unit)
		if !f.OK() {
			bad++
			fmt.Println("    over the limit:")
		}
		shown := 0
		for _, w := range f.Where {
			if strings.HasPrefix(w, in) && shown < most {
				fmt.Println("    " + w)
				shown++
			}
		}
	}
	if bad > 0 {
		return fmt.Errorf("%d figures are over their limits", bad)
	}
	return nil
}
