package command

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/ringside-go/ringside/tensor/cluster/trace"
)

func newTraceView() *cobra.Command {
	var (
		svg, picture string
		most         int
	)
	c := &cobra.Command{
		Use:   "view FILE",
		Short: "say where the time of a trace went",
		Long: `View reads a file of train --trace or of trace and says where the time went: by operation and by phase, waiting against working,
round trips and bytes, how much of collectives ran beside programs, and what to do about the largest item. --svg and --png draw
the timeline, a lane for each of the first 64 processes: a column of pixels is a piece of the time, and its colours are what the piece went to.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("%d arguments: expected one, the file of a trace", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := positive(cmd.Flags(), "ops"); err != nil {
				return err
			}
			in, err := os.Open(args[0])
			if err != nil {
				return err
			}
			defer in.Close()
			f, err := trace.Parse(in)
			if err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			sum := trace.Summarize(f)
			if n := len(sum.Lanes); n > trace.MaxDrawn && svg+picture != "" {
				fmt.Fprintf(cmd.ErrOrStderr(), "warning: the first %d of %d processes are drawn, and %d left out\n", trace.MaxDrawn, n, n-trace.MaxDrawn)
			}
			// Pictures come first: a reader of the text, such as head, may end the
			// process.
			return errors.Join(drawTo(svg, func(w io.Writer) error { return trace.SVG(w, f) }),
				drawTo(picture, func(w io.Writer) error { return trace.PNG(w, f) }), sum.Write(cmd.OutOrStdout(), most))
		},
	}
	c.Flags().StringVar(&svg, "svg", "", "file to draw the timeline to, as SVG")
	c.Flags().StringVar(&picture, "png", "", "file to draw the timeline to, as PNG")
	c.Flags().IntVar(&most, "ops", 12, "number of operations to name")
	return c
}

// drawTo makes a file; it does nothing without a name.
func drawTo(path string, draw func(io.Writer) error) error {
	if path == "" {
		return nil
	}
	return writeWhole(path, draw)
}
