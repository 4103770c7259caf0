package command

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/ringside-go/ringside/bench"
	"github.com/ringside-go/ringside/gather/codec"
	"github.com/ringside-go/ringside/shm/plain"
)

func newGatherInspect() *cobra.Command {
	var manifest string
	var window, uid uint64
	var asJSON bool
	c := &cobra.Command{
		Use:   "inspect FILE",
		Short: "check an update's file and show what is in it",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("%d files: expected one, as update-1-2.grd1 of a store", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			m, err := readManifest(manifest)
			if err != nil {
				return err
			}
			b, err := os.ReadFile(args[0])
			if err != nil {
				return plain.Path(err)
			}
			want := &codec.Expect{Manifest: m}
			if want.Window, want.UID, err = codec.Claim(b); err != nil {
				return fmt.Errorf("%s: %w", plain.Name(args[0]), err)
			}
			if cmd.Flags().Changed("window") {
				want.Window = window
			}
			if cmd.Flags().Changed("uid") {
				want.UID = uid
			}
			rep, err := codec.Validate(bytes.NewReader(b), want)
			if err != nil {
				return fmt.Errorf("%s: %w", plain.Name(args[0]), err)
			}
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(rep)
			}
			h := &rep.Header
			out := cmd.OutOrStdout()
			fmt.Fprintf(out, "peer %d, window %d, step %d: %d bytes, digest %v\n", h.UID, h.Window, h.Step, rep.Size, rep.Digest)
			tw := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
			fmt.Fprintln(tw, "parameter\trows\tk of\tindices\tvalues\tbits a value\tnorm")
			for i := range h.Params {
				p, q := &h.Params[i], &m.Params[i]
				bits := float64(p.IndexLen+p.ValueLen) * 8 / float64(q.Rows*q.K)
				fmt.Fprintf(tw, "%s\t%d\t%d of %d\t%v\t%v\t%.2f\t%.4g\n", plain.Name(q.Name), q.Rows, q.K, q.TotalK, q.Index, q.Value, bits, rep.Norms[i])
			}
			return tw.Flush()
		},
	}
	c.Flags().StringVar(&manifest, "manifest", "manifest.json", "what updates look like, from gather init")
	c.Flags().Uint64Var(&window, "window", 0, "window that the update must be of (default: the one it names)")
	c.Flags().Uint64Var(&uid, "uid", 0, "peer that the update must be of (default: the one it names)")
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return c
}

// newGatherBench is the scenario gather of bench.
func newGatherBench() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "bench",
		Short: "time gathers and updates: the scenario gather of ringside bench",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			log := logger(cmd)
			me, err := self(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			s, err := bench.Find("gather")
			if err != nil {
				return err
			}
			r, err := s.Run(cmd.Context(), &bench.Options{Self: me, Logger: log})
			if err != nil {
				return err
			}
			if asJSON {
				return r.WriteJSON(cmd.OutOrStdout())
			}
			return r.WriteTable(cmd.OutOrStdout())
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a line")
	return c
}
