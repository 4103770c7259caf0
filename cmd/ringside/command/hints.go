package command

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ringside-go/ringside/bench"
	"github.com/ringside-go/ringside/cmd/ringside/plot"
	"github.com/ringside-go/ringside/gather/agg"
	"github.com/ringside-go/ringside/tensor/train"
)

// otherNames are names that other programs (torchrun, mpirun, training scripts) give to
// flags of ours.
var otherNames = map[string][]string{
	"steps":      {"epochs", "num-epochs", "max-steps", "iters", "iterations", "num-train-epochs"},
	"batch":      {"batch-size", "batchsize", "bs", "per-device-train-batch-size", "micro-batch-size"},
	"accumulate": {"gradient-accumulation-steps", "grad-accum"},
	"lr":         {"learning-rate"},
	"loss-every": {"log-interval", "logging-steps", "log-every"},
	"every":      {"save-every", "save-steps", "save-interval"},
	"bytes":      {"max-new-tokens", "max-tokens", "num-tokens", "tokens", "length"},
	"sample":     {"max-new-tokens", "generate"},
	"load":       {"weights", "pretrained", "model-name-or-path"},
	"save":       {"output", "output-dir", "out"},
	"to":         {"output", "output-dir", "out"},
	"checkpoint": {"checkpoint-dir", "save-dir", "ckpt"},
	"prompt":     {"text", "input"},
	"data":       {"dataset", "text", "data-dir", "train-file"},
	"workers":    {"np", "nproc", "nproc-per-node", "gpus", "devices", "world-size", "num-processes"},
	"device":     {"gpu", "cuda", "accelerator"},
	"threads":    {"num-threads", "omp-num-threads"},
	"ranks":      {"np", "nproc-per-node", "nproc", "num-processes", "world-size", "nranks"},
	"hosts":      {"host", "hostfile", "nnodes", "nodes", "machinefile"},
	"env":        {"x", "genv"},
	"restarts":   {"max-restarts"},
	"connect":    {"address", "addr", "server"},
	"log-level":  {"verbose", "debug", "quiet"},
	"listen":     {"socket", "bind"},
}

// like returns the flags whose names an unknown one may mean.
func like(flags *pflag.FlagSet, unknown string) []*pflag.Flag {
	unknown = strings.ReplaceAll(unknown, "_", "-")
	// Cobra's rules for the names of commands serve for flags: a letter or two that
	// differ, or a name that is listed.
	names := &cobra.Command{SuggestionsMinimumDistance: max(1, min(2, (len(unknown)+1)/3))}
	flags.VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names.AddCommand(&cobra.Command{Use: f.Name, SuggestFor: otherNames[f.Name], Run: func(*cobra.Command, []string) {}})
		}
	})
	var found, listed []*pflag.Flag
	for _, name := range names.SuggestionsFor(unknown) {
		found = append(found, flags.Lookup(name))
		if slices.Contains(otherNames[name], unknown) {
			listed = append(listed, flags.Lookup(name))
		}
	}
	if len(listed) > 0 { // the others only begin alike
		return listed
	}
	return found
}

// didYouMean returns ", did you mean a or b?", "" for no names.
func didYouMean(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf(", did you mean %s?", strings.Join(names, " or "))
}

// flagHint returns the hint for an error of parsing flags.
func flagHint(cmd *cobra.Command, err error) string {
	var none *pflag.NotExistError
	var bad *pflag.InvalidValueError
	var names []string
	switch {
	case errors.As(err, &none):
		for _, f := range like(cmd.Flags(), none.GetSpecifiedName()) {
			names = append(names, "--"+f.Name)
		}
	// Of mpirun's -np, pflag takes p for the value of -n.
	case errors.As(err, &bad) && bad.GetFlag().Shorthand == "n" && bad.GetValue() == "p":
		names = []string{"-n"}
	}
	return didYouMean(names)
}

// argumentHint returns the hint for arguments of a command that takes flags alone: the
// flag for weights, for data or for a prompt, by what is there and what the command does.
func argumentHint(flags *pflag.FlagSet, args []string) string {
	load, data, prompt := flags.Lookup("load"), flags.Lookup("data"), flags.Lookup("prompt")
	if load == nil {
		return ""
	}
	_, missing := os.Stat(args[0])
	trains := flags.Lookup("save") != nil
	meant := load
	switch {
	case isWeights(args[0]):
	case prompt != nil && !trains: // a text without quotes is several arguments
		text := strings.Join(args, " ")
		if prompt.Changed {
			text = prompt.Value.String() + " " + text
		}
		return didYouMean([]string{"--prompt " + shellWord(text)})
	case data != nil && (trains || missing == nil || load.Changed):
		meant = data
	}
	if meant.Changed {
		return ""
	}
	return didYouMean([]string{fmt.Sprintf("--%s %s", meant.Name, shellWord(args[0]))})
}

// isWeights reports whether path has the name of a file of weights, or is the folder of
// such a file or of a checkpoint.
func isWeights(path string) bool {
	for _, name := range []string{"model.safetensors", "manifest.json"} {
		if _, err := os.Stat(filepath.Join(path, name)); err == nil {
			return true
		}
	}
	return filepath.Ext(path) == ".safetensors"
}

// help is `ringside help`, which fails for a command that does not exist.
func help() *cobra.Command {
	return &cobra.Command{
		Use:   "help [command]",
		Short: "help for a command",
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			of, _, err := cmd.Root().Find(args)
			if err != nil {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			var names []string
			for _, c := range of.Commands() {
				if c.IsAvailableCommand() {
					names = append(names, cobra.CompletionWithDesc(c.Name(), c.Short))
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			of, rest, err := cmd.Root().Find(args)
			switch {
			case err != nil:
				return err
			case len(rest) > 0:
				return unknownCommand(of, rest[0])
			}
			of.InitDefaultHelpFlag()
			return of.Help()
		},
	}
}

// unknownCommand returns the error of a name that none of the commands below c has.
func unknownCommand(c *cobra.Command, name string) error {
	var names []string
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
	}
	has := "it has none"
	if len(names) > 0 {
		has = "it has " + strings.Join(names, ", ")
	}
	return usagef("unknown command %q for %q: %s; see %s --help", name, c.CommandPath(), has, c.CommandPath())
}

// completionCommand adds cobra's command that prints completions of shells, which refuses
// the name of another one.
func completionCommand(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.Name() == "completion" {
			c.Args = noArgs
			c.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		}
	}
}

// noFlags are the variables with our prefix that tell ranks where they are
// (collective/rendezvous).
var noFlags = []string{"RINGSIDE_SECRET", "RINGSIDE_RENDEZVOUS", "RINGSIDE_EPOCH", "RINGSIDE_VERDICT", "RINGSIDE_EVENTS", "RINGSIDE_SERVICE"}

// allFlags returns the flags of all commands; of those of one name only one.
func allFlags(root *cobra.Command) *pflag.FlagSet {
	all := pflag.NewFlagSet("", pflag.ContinueOnError)
	add := func(f *pflag.Flag) {
		if all.Lookup(f.Name) == nil {
			long := *f
			long.Shorthand = "" // which is another flag's in another command
			all.AddFlag(&long)
		}
	}
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		c.Flags().VisitAll(add)
		c.PersistentFlags().VisitAll(add)
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	visit(root)
	return all
}

// unknownVariables returns a warning for each RINGSIDE_ variable that no flag of any
// command and no part of the library reads.
func unknownVariables(root *cobra.Command, environ []string) []string {
	flags := allFlags(root)
	known := slices.Clone(noFlags)
	flags.VisitAll(func(f *pflag.Flag) { known = append(known, variable(f)) })
	var warnings []string
	for _, v := range slices.Sorted(slices.Values(environ)) {
		name, _, _ := strings.Cut(v, "=")
		rest, ours := strings.CutPrefix(name, envPrefix)
		if !ours || slices.Contains(known, name) || strings.HasPrefix(rest, "TEST_") {
			continue
		}
		var meant []string
		for _, f := range like(flags, strings.ToLower(rest)) {
			meant = append(meant, variable(f))
		}
		warnings = append(warnings, fmt.Sprintf("%s is no flag's variable%s", name, didYouMean(meant)))
	}
	return warnings
}

// complete has the shell complete a flag's values.
func complete(cmd *cobra.Command, flag string, values ...string) {
	f := cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)
	if err := cmd.RegisterFlagCompletionFunc(flag, f); err != nil {
		panic(err) // there is no such flag, or it has completions
	}
}

// completions gives the flags of all commands the values that they may have.
func completions(root *cobra.Command) {
	var models []string
	for _, m := range train.Models() {
		models = append(models, cobra.CompletionWithDesc(m.Name, m.Doc))
	}
	devices := []string{"cpu", "cuda", "auto"}
	values := map[string]map[string][]string{
		"ringside":             {"log-level": {"debug", "info", "warn", "error"}},
		"ringside train":       {"model": models, "outer": {"diloco"}, "aggregate": agg.Names(), "device": devices},
		"ringside demo":        {"device": devices},
		"ringside up":          {"device": devices},
		"ringside generate":    {"model": models},
		"ringside eval":        {"model": models},
		"ringside export":      {"model": models},
		"ringside worker":      {"simd": {"go", "avx2", "avx512", "amx", "neon"}, "device": devices},
		"ringside plan dump":   {"model": append(bench.TrainingModels(), models...), "device": {"cpu", "cuda"}, "dot": {"plan", "program"}},
		"ringside bench":       {"model": bench.TrainingModels(), "dtypes": {"f32", "f16", "bf16"}, "sides": {"ringside", "C", "Open MPI", "Gloo"}, "hosts": {"1", "2"}},
		"ringside plot":        {"of": plot.Names},
		"ringside gather plan": {"aggregate": agg.Names()},
		"ringside gather init": {"index": {"rice", "pack12", "u16", "bitmap"}, "value": {"u2", "u4", "u8", "sign", "bf16", "f32"}},
	}
	for _, path := range slices.Sorted(maps.Keys(values)) {
		c := root
		if names := strings.Fields(path)[1:]; len(names) > 0 {
			found, _, err := root.Find(names)
			if err != nil {
				panic(err)
			}
			c = found
		}
		for _, flag := range slices.Sorted(maps.Keys(values[path])) {
			complete(c, flag, values[path][flag]...)
		}
	}
	noFiles(root)
}

// noFiles keeps shells from completing names of files for c and the commands below it
// that take no argument.
func noFiles(c *cobra.Command) {
	if c.ValidArgsFunction == nil && c.Args != nil && c.Args(c, []string{"x"}) != nil {
		c.ValidArgsFunction = cobra.NoFileCompletions
	}
	for _, sub := range c.Commands() {
		noFiles(sub)
	}
}
