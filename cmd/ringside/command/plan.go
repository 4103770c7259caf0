package command

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ringside-go/ringside/bench"
	"github.com/ringside-go/ringside/shm/plain"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cpu"
	"github.com/ringside-go/ringside/tensor/cuda"
	"github.com/ringside-go/ringside/tensor/device"
	"github.com/ringside-go/ringside/tensor/explain"
	"github.com/ringside-go/ringside/tensor/train"
)

func newPlan() *cobra.Command {
	c := &cobra.Command{
		Use:   "plan",
		Short: "look at what programs become",
		Args:  noArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.AddCommand(newPlanDump(), newPlanProducts())
	return c
}

// dumpOptions are the flags of plan dump.
type dumpOptions struct {
	model, file, save string
	dot               string
	json, noFuse      bool
	timed, threads    int
	hosts             int
	workers, config   string
	device            string
	auto              bool

	session uint64 // of a running cluster; 0 for none
	addr    string
	far     keys
}

func newPlanDump() *cobra.Command {
	var o dumpOptions
	c := &cobra.Command{
		Use:   "dump",
		Short: "show a program before and after it is compiled",
		Long: `Dump shows the program of one training step as it was recorded and the plan that it is compiled to: the steps, what
each reads and writes, and where that lies. The models are those of bench torch: ` + strings.Join(bench.TrainingModels(), ", ") + `.
A program of your own is what Session.Tape returns; write its bytes, Append(nil), to a file for --program. The plans of all programs
that run are what cpu.Options.Trace is called with: tensor/cpu/example_test.go.

With --session it is the program that a session of a running dispatcher ran most often, as its first worker has it; top and
inspect have the numbers of sessions.

A step is a line: outputs = operation operands [numbers of the operation]. in0 is an input, out0 a result, s0 a scalar, t@4096 a
temporary at that byte of the plan's memory. f32[2 64] is dtype and shape; /[1 64]+0 are the strides and the first element where
these are not those of a dense tensor. {mul add} is one step for several operations.

With --dot it prints the plan as a graph for Graphviz, with --dot=program the program, with --json one object with both: inputs, instructions, steps, buffers, results and stats.

With --time the step is run that often and each step of the plan gets its shortest time in microseconds.

With --device cuda it lists instead the steps of the plan for a GPU, each after how many kernels it launches there, or "host" where
it runs on the host. No GPU is needed.

With --workers 4 it shows instead how the step would run on 4 workers, each with a part of the batch; with --workers 2x2 on two
groups of two. --auto-shard chooses what is cut and says why. --config takes it from a file, where signals are the batch,
optimizer.state and the parameters by their names (docs/sharding.md). It says how the inputs lie and why, what is moved and why,
and every worker's programs. With --device cuda or --hosts 2 it also says how the workers that have something of each other reach it
(from GPU to GPU, by shared memory, by TCP) and why not faster; workers are on the hosts in the order of their ranks.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.timed < 0 || o.threads < 0 || o.hosts < 0 {
				return usagef("--time %d, --threads %d, --hosts %d: expected 0 or more", o.timed, o.threads, o.hosts)
			}
			if o.threads > cpu.MaxThreads {
				return usagef("--threads %d: expected 0 to %d", o.threads, cpu.MaxThreads)
			}
			if o.hosts > 0 && !o.several() {
				return usagef("--hosts is about several workers: --workers or --config says how many")
			}
			drawn := cmd.Flags().Changed("dot")
			if drawn && o.json {
				return usagef("--dot and --json exclude each other")
			}
			if drawn && o.dot != "plan" && o.dot != "program" {
				return usagef("--dot=%s: expected plan or program", o.dot)
			}
			if o.device != "cpu" && o.device != "cuda" {
				return usagef("--device %q: expected cpu or cuda", o.device)
			}
			if o.device == "cuda" && (o.timed > 0 || drawn || o.json || o.noFuse) {
				return usagef("--device cuda prints text without times; leave --time, --dot, --json and --no-fuse out")
			}
			if o.several() && (o.timed > 0 || drawn || o.json) {
				return usagef("--workers, --auto-shard and --config print text without times; leave --time, --dot and --json out")
			}
			if o.timed > 0 && (o.file != "" || drawn) {
				return usagef("--time runs a model and draws nothing; leave --program and --dot out")
			}
			if cmd.Flags().Changed("session") {
				if o.session == 0 || o.file != "" || o.timed > 0 || cmd.Flags().Changed("model") {
					return usagef("--session %d: expected the number of a session, without --model, --program and --time", o.session)
				}
			} else if o.addr != "" {
				return usagef("--connect is for --session")
			}
			return o.dump(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	c.Flags().StringVar(&o.model, "model", "qwen_t64", "whose training step: a model of train, or of bench torch")
	c.Flags().StringVar(&o.file, "program", "", "a file with an encoded program, instead of a model's")
	c.Flags().Uint64Var(&o.session, "session", 0, "the program of the session of this number, in a running cluster")
	c.Flags().StringVar(&o.addr, "connect", "", "address of the dispatcher for --session (default: this user's)")
	o.far.flags(c.Flags())
	c.Flags().StringVar(&o.save, "save", "", "write the encoded program to this file")
	c.Flags().StringVar(&o.dot, "dot", "", "print a graph for Graphviz instead of text: plan or program")
	c.Flags().Lookup("dot").NoOptDefVal = "plan"
	c.Flags().BoolVar(&o.json, "json", false, "print one JSON object instead of text")
	c.Flags().BoolVar(&o.noFuse, "no-fuse", false, "one step for every operation")
	c.Flags().IntVar(&o.timed, "time", 0, "run so many steps and show what each part takes")
	c.Flags().IntVar(&o.threads, "threads", 0, "threads of the timed run; 0 is one")
	c.Flags().StringVar(&o.device, "device", "cpu", "whose plan: cpu or cuda")
	c.Flags().StringVar(&o.workers, "workers", "", "show the plan for so many workers, 4 or 2x2")
	c.Flags().StringVar(&o.config, "config", "", "show the plan for the workers of this file")
	c.Flags().IntVar(&o.hosts, "hosts", 0, "say how the workers reach each other on so many hosts; 0 is one")
	c.Flags().BoolVar(&o.auto, "auto-shard", false, "choose what is cut, and say why")
	return c
}

func (o *dumpOptions) dump(ctx context.Context, w, warn io.Writer) error {
	var encoded []byte
	var times []time.Duration
	var err error
	if o.session != 0 {
		encoded, err = o.running(ctx, warn)
	} else {
		encoded, times, err = o.program()
	}
	if err != nil {
		return err
	}
	if o.save != "" {
		if err := writeWhole(o.save, func(w io.Writer) error {
			_, err := w.Write(encoded)
			return err
		}); err != nil {
			return fmt.Errorf("--save: %w", err)
		}
	}
	p, err := tensor.ParseProgram(encoded)
	if err != nil {
		return fmt.Errorf("%s: %w", cmp.Or(o.file, "the program"), err)
	}
	if o.several() {
		return o.sharded(w, p)
	}
	if o.device == "cuda" {
		return writePlaced(w, cuda.Place(p))
	}
	plan := explain.Compile(p, &explain.Options{NoFuse: o.noFuse})
	switch {
	case o.dot == "plan":
		_, err = fmt.Fprint(w, plan.Dot())
	case o.dot == "program":
		_, err = fmt.Fprint(w, plan.DotProgram())
	case o.json:
		err = json.NewEncoder(w).Encode(plan.Document(times))
	default:
		err = plan.WriteText(w, times)
	}
	return err
}

// running returns the program of a session of a running cluster, and says which it is.
func (o *dumpOptions) running(ctx context.Context, said io.Writer) ([]byte, error) {
	m, err := watcher(ctx, o.addr, &o.far)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	ctx, cancel := context.WithTimeoutCause(ctx, showFor, fmt.Errorf("session %d: its worker has not answered for %v; a worker answers between two programs", o.session, showFor))
	defer cancel()
	p, err := m.Program(ctx, o.session)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil && ctx.Err() != nil {
			return nil, cause
		}
		return nil, err
	}
	fmt.Fprintf(said, "session %d, %q, workers: %d; program %v, which ran %d times, the most of %d\n", o.session, p.Session, p.Workers, p.Hash, p.Runs, p.Programs)
	return p.Encoded, nil
}

// showFor is how long plan dump waits for a worker.
const showFor = 10 * time.Second

// writePlaced prints where the steps of a plan for a GPU run.
func writePlaced(w io.Writer, steps []cuda.Placed) error {
	onHost := 0
	for _, s := range steps {
		where := plain.Count(s.Kernels, "kernel")
		switch {
		case s.Host:
			where = "host"
			onHost++
		case s.Kernels == 1:
			where = "kernel"
		}
		if _, err := fmt.Fprintf(w, "%-11s %s\n", where, s.Step); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(w, "%d steps, %d of them on the host\n", len(steps), onHost)
	return err
}

// program returns the encoded program to show and, if it is run, the shortest time of
// every step.
func (o *dumpOptions) program() ([]byte, []time.Duration, error) {
	if o.file != "" {
		f, err := os.Open(o.file)
		if err != nil {
			return nil, nil, fmt.Errorf("--program: %w", err)
		}
		defer f.Close()
		// One byte more than allowed is read, so that a longer file is refused.
		b, err := io.ReadAll(io.LimitReader(f, tensor.MaxProgramBytes+1))
		return b, nil, err
	}
	var times []time.Duration
	d, err := cpu.New(&cpu.Options{NoFuse: o.noFuse, Threads: o.threads, Trace: func(p explain.Plan, step int, took time.Duration) {
		if len(times) != p.Steps() { // only the last program's times count
			times = make([]time.Duration, p.Steps())
		}
		if t := &times[step]; *t == 0 || took < *t {
			*t = took
		}
	}})
	if err != nil {
		return nil, nil, err
	}
	defer d.Close()
	last := &lastProgram{Engine: device.NewEngine(d)}
	s := tensor.NewSession(last, nil)
	defer s.Close()
	if m, err := train.Find(o.model); err == nil {
		encoded, err := o.trained(s, m, last, func() { times = nil })
		if o.timed == 0 {
			times = nil
		}
		return encoded, times, err
	}
	t, err := bench.NewTraining(s, o.model, o.several())
	if err != nil {
		return nil, nil, usagef("--model: %v; or of train, %s", err, strings.Join(trainModels(), ", "))
	}
	for i := range 2 + o.timed { // the first makes the optimizer's state
		if i == 2 {
			times = nil
		}
		if _, err := t.Step(); err != nil {
			return nil, nil, err
		}
	}
	if o.timed == 0 {
		times = nil
	}
	return last.encoded, times, nil
}

// lastProgram keeps the last program that passes.
type lastProgram struct {
	tensor.Engine
	encoded []byte
}

func (l *lastProgram) Submit(ctx context.Context, b *tensor.Batch) ([]tensor.Fetched, error) {
	if b.Program != nil {
		l.encoded = slices.Clone(b.Encoded)
	}
	return l.Engine.Submit(ctx, b)
}
