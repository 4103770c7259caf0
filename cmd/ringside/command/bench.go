package command

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ringside-go/ringside/bench"
	"github.com/ringside-go/ringside/tensor/cuda"
	"github.com/ringside-go/ringside/tensor/device"
)

// benchFlags are those of bench.
type benchFlags struct {
	rounds, scale int
	idle, hops    bool
	model         string
	choice        collectiveFlags
	reduce        bench.ReduceOptions
	table         tableFlags
	products      string // of gpu, see productsFlag
	training      string
}

// check reports flags that can't be, or are of scenarios that are not named.
func (f *benchFlags) check(flags *pflag.FlagSet, names []string) error {
	if err := positive(flags, "rounds", "scale"); err != nil {
		return err
	}
	if (f.idle || f.hops) && !slices.Contains(names, "latency") {
		return usagef("--idle and --hops are for the scenario latency")
	}
	if f.idle && f.hops {
		return usagef("--idle and --hops: expected one of them")
	}
	for _, name := range []string{"filter", "layouts", "level", "resume"} {
		if flags.Changed(name) && !slices.Contains(names, "ops-table") {
			return usagef("--%s is for the scenario ops-table", name)
		}
	}
	for _, n := range f.reduce.Workers {
		if n < 1 || n > 64 || !slices.Contains(names, "reduce") {
			return usagef("--workers %d: expected 1 to 64, for the scenario reduce", n)
		}
	}
	return nil
}

// gpu returns what the scenario gpu times: the first GPU that can be used.
func (f *benchFlags) gpu() bench.GPUOptions {
	return bench.GPUOptions{Training: f.training, Open: func(products bool) (*cuda.Device, error) {
		h := thisHost()
		api, numbers, found := h.usableGPUs(devices{kind: device.CUDA}, io.Discard)
		if len(numbers) == 0 {
			return nil, fmt.Errorf("%w: %s", bench.ErrNoGPU, found.text())
		}
		o := &cuda.Options{}
		if products {
			l, err := h.library(api, f.products)
			if err != nil && f.products != "" {
				return nil, err
			}
			o.Products = l
		}
		return cuda.Open(api, numbers[0], o)
	}}
}

func newBench() *cobra.Command {
	var asJSON bool
	var f benchFlags
	var list strings.Builder
	var names []string
	for _, s := range bench.Scenarios() {
		fmt.Fprintf(&list, "  %-15s %s\n", s.Name, s.Doc)
		names = append(names, cobra.CompletionWithDesc(s.Name, s.Doc))
	}
	c := &cobra.Command{
		Use:   "bench [scenario...]",
		Short: "time whole scenarios, each beside a peer or floor in the same run",
		Long: `Bench runs the scenarios that are named, all of them if none is, each with its sides interleaved.

Scenarios:
` + list.String() + `
It ends with figures that have a limit, and whether they hold. The exit status is 0 if everything could be measured.`,
		ValidArgsFunction: cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp),
		RunE: func(cmd *cobra.Command, args []string) error {
			log := logger(cmd)
			if err := f.check(cmd.Flags(), args); err != nil {
				return err
			}
			which, err := f.choice.options(cmd.Flags(), args)
			if err != nil {
				return err
			}
			scenarios, err := namedScenarios(args, f.idle, f.hops)
			if err != nil {
				return err
			}
			for _, s := range scenarios {
				if parts := s.Parts(); f.model != "" && !slices.Contains(parts, f.model) {
					return usagef("--model %s: scenario %s has none of that name, expected %s", f.model, s.Name, cmp.Or(strings.Join(parts, ", "), "torch, ddp, exact, kernels, gpu or gather, which have some"))
				}
			}
			me, err := self(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			table, err := f.table.options(which)
			if err != nil {
				return err
			}
			defer table.Saved.Close()
			if !asJSON {
				fmt.Fprint(cmd.OutOrStdout(), bench.ThisMachine())
			}
			gpu := f.gpu()
			for _, s := range scenarios {
				r, err := s.Run(cmd.Context(), &bench.Options{GPU: gpu, Rounds: f.rounds, Self: me, Logger: log, Scale: f.scale, Only: f.model, Collective: which, Reduce: f.reduce, Table: table})
				if (errors.Is(err, bench.ErrNoTorch) || errors.Is(err, bench.ErrNoBackend) || errors.Is(err, bench.ErrNoGPU)) && len(args) == 0 {
					log.Warn("a scenario is left out", "scenario", s.Name, "why", err)
					continue
				}
				if err != nil {
					err = fmt.Errorf("%s: %w", s.Name, err)
				}
				// Rows of ops-table that are missing are an error behind the others.
				if err != nil && !errors.Is(err, bench.ErrNoRow) {
					return err
				}
				if err := errors.Join(err, writeReport(cmd.OutOrStdout(), r, asJSON)); err != nil {
					return err
				}
			}
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a line: measurements, then bars")
	c.Flags().IntVar(&f.rounds, "rounds", 0, "how often every side is measured (default: the scenario's own number)")
	c.Flags().IntVar(&f.scale, "scale", 1, "divide the work of a round by this; the figures mean less")
	c.Flags().StringVar(&f.model, "model", "", "torch, ddp, exact: only the model of this name; kernels, gpu, gather: only the part of this name, such as adamw or update")
	c.Flags().BoolVar(&f.idle, "idle", false, "latency: with pauses, as latency-idle")
	c.Flags().BoolVar(&f.hops, "hops", false, "latency: through a process in the middle, as latency-hops")
	c.Flags().IntSliceVar(&f.reduce.Workers, "workers", nil, "reduce: numbers of workers (default 1,2,4)")
	f.table.add(c.Flags())
	c.Flags().StringVar(&f.training, "training", "", "gpu: the model whose steps are timed (default qwen_t64)")
	productsFlag(c.Flags(), &f.products)
	f.choice.add(c.Flags())
	return c
}

// writeReport writes a report as lines of JSON or for people.
func writeReport(w io.Writer, r *bench.Report, asJSON bool) error {
	if asJSON {
		return r.WriteJSON(w)
	}
	fmt.Fprintln(w)
	return r.WriteTable(w)
}

// namedScenarios returns the scenarios of the given names, or all of them. With idle or
// hops, latency stands for another scenario.
func namedScenarios(names []string, idle, hops bool) ([]bench.Scenario, error) {
	if len(names) == 0 {
		return bench.Scenarios(), nil
	}
	var out []bench.Scenario
	for _, name := range names {
		if name == "latency" && idle {
			name = "latency-idle"
		} else if name == "latency" && hops {
			name = "latency-hops"
		}
		s, err := bench.Find(name)
		if err != nil {
			return nil, &usageError{err.Error()}
		}
		out = append(out, s)
	}
	return out, nil
}

func newBenchPeer() *cobra.Command {
	return &cobra.Command{
		Use:    "bench-peer NAME",
		Short:  "the other end of a measurement",
		Args:   cobra.ExactArgs(1),
		Hidden: true,
		RunE:   func(_ *cobra.Command, args []string) error { return bench.Peer(args[0]) },
	}
}
