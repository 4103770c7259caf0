package command

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ringside-go/ringside/cmd/ringside/plot"
	"github.com/ringside-go/ringside/shm/plain"
)

func newPlot() *cobra.Command {
	var (
		svg, png string
		of       []string
		o        plot.Options
	)
	c := &cobra.Command{
		Use:   "plot RUN...",
		Short: "draw the losses of training runs in one picture",
		Long: `Plot draws the runs that train --log-dir wrote, each a folder or the losses.jsonl in it, over their steps: each run has a colour.
With --of loss,lr,rate there is a panel for each of these, one below the other.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("expected runs: folders that train --log-dir made; see ringside plot --help")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if svg == "" && png == "" {
				return usagef("--svg FILE or --png FILE is needed: where the picture goes")
			}
			for _, name := range of {
				v := slices.Index(plot.Names, name)
				if v < 0 {
					return usagef("--of %q: expected some of %s", name, strings.Join(plot.Names, ", "))
				}
				o.Values = append(o.Values, plot.Value(v))
			}
			var runs []*plot.Run
			for _, path := range args {
				r, err := plot.Read(path)
				if err != nil {
					return err
				}
				r.Name = cell(r.Name)
				runs = append(runs, r)
			}
			err := errors.Join(drawTo(svg, func(w io.Writer) error { return plot.SVG(w, runs, &o) }),
				drawTo(png, func(w io.Writer) error { return plot.PNG(w, runs, &o) }))
			if err == nil {
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s in %s\n", plain.Count(len(runs), "run"), strings.TrimSpace(plain.Name(svg)+" "+plain.Name(png)))
			}
			return err
		},
	}
	c.Flags().StringVar(&svg, "svg", "", "file for the picture as SVG")
	c.Flags().StringVar(&png, "png", "", "file for the picture as PNG")
	c.Flags().StringSliceVar(&of, "of", nil, "what to draw: loss, lr, rate (default loss)")
	c.Flags().BoolVar(&o.Log, "log-scale", false, "logarithmic scale of what is drawn")
	return c
}
