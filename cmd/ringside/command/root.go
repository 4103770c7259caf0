// Package command is the command line: one file a subcommand, each a function that makes
// a cobra.Command.
package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ringside-go/ringside/shm/limits"
)

// oneAtATime lets several goroutines write, as files do by themselves.
type oneAtATime struct {
	mu sync.Mutex
	w  io.Writer
}

func (o *oneAtATime) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.w.Write(b)
}

func isFile(w io.Writer) bool {
	_, ok := w.(*os.File)
	return ok
}

// errSilent is returned when the error has been printed already; the exit status is 1.
var errSilent = errors.New("failed")

// NewRootCommand makes the whole command line.
func NewRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "ringside",
		Short: "tensor programs in worker processes next to yours",
		Long: `ringside runs tensor programs in worker processes next to yours, over shared memory.

Every flag can also be given as an environment variable: --log-level is RINGSIDE_LOG_LEVEL. A flag wins.`,
		Version:       thisVersion().Version,
		SilenceUsage:  true,
		SilenceErrors: true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if w := cmd.ErrOrStderr(); !isFile(w) { // processes and goroutines share it
				cmd.SetErr(&oneAtATime{w: w})
			}
			err := ownThreads(limits.Machine{}.Threads(max(fewThreads, threadsOfCore*runtime.GOMAXPROCS(0))))
			if err == nil {
				err = limits.Machine{}.Space(leastAddresses, leastOwn)
			}
			if err != nil && cmd.Annotations[withLittle] == "" {
				return err
			}
			if err := notEmpty(cmd.Flags()); err != nil {
				return err
			}
			if err := fromEnv(cmd.Flags(), os.LookupEnv); err != nil {
				return err
			}
			if err := logsFrom(cmd); err != nil {
				return err
			}
			for _, w := range unknownVariables(cmd.Root(), os.Environ()) {
				logger(cmd).Warn(w)
			}
			return nil
		},
	}
	root.PersistentFlags().String("log-level", "warn", "least level of what is logged to standard error: debug, info, warn, error")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usagef("%s%s; see %s --help", flagError(err), flagHint(cmd, err), cmd.CommandPath())
	})
	root.AddCommand(newUp(), newDispatcher(), newWorker(), newTrain(), newGenerate(), newEval(), newExport(), newDemo(), newBench(), newBenchPeer(), newGPUPeer(), newDoctor(), newInspect(), newTop(), newTrace(), newPlot(), newRun(), newPlan(), newGather(), newVersion())
	root.SetHelpCommand(help())
	completionCommand(root)
	wrapHelp(root)
	completions(root)
	return root
}

const (
	// fewThreads is how many threads more a command starts that has no cluster of its
	// own.
	fewThreads = 4

	// threadsOfCore is how many threads must be left for each core that this process
	// uses: a garbage collection has one on every core, and other processes count, too.
	threadsOfCore = 4

	// leastAddresses and leastOwn are the bytes of address space, and of memory of its
	// own, that must be left when a command begins: each thread has a stack of 8 MiB, and
	// the C library reserves 64 MiB for its heap.
	leastAddresses, leastOwn = 128 << 20, 48 << 20
)

// ownThreads has this process use fewer cores where there are few threads, and returns an
// error where the Go runtime would soon end it because it finds none.
func ownThreads(t limits.Threads) error {
	if n := max(t.Free/threadsOfCore, 1); n < runtime.GOMAXPROCS(0) {
		runtime.GOMAXPROCS(n)
	}
	if t.Free < fewThreads {
		return fmt.Errorf("too few threads: this process needs %d more, and %v: %s", fewThreads, t, t.Raise(fewThreads))
	}
	return nil
}

// withLittle annotates a command that runs with fewer than fewThreads, and with less
// memory than others need.
const withLittle = "with little"

// oneForUsage annotates a command of which an exit status of 2 is an outcome.
const oneForUsage = "one for usage"

// Main runs the command line and returns the exit status: 0; 1 for a failure; 2 for wrong
// usage, or 1 where oneForUsage says so; 130 or, of a signal of StopContext, 128 and its
// number, if ctx ended it before its work was done.
func Main(ctx context.Context, root *cobra.Command) int {
	cmd, err := root.ExecuteContextC(ctx)
	err = listenElsewhere(cmd, err)
	var exit *exitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit) && errors.Is(err, errSilent):
		return exit.code
	case errors.Is(err, errSilent):
		return 1
	case errors.As(err, &exit):
		fmt.Fprintf(root.ErrOrStderr(), "ringside: %s\n", printable(err.Error()))
		return exit.code
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		what, status := interruption(ctx)
		fmt.Fprintln(root.ErrOrStderr(), "ringside: "+what)
		return status
	}
	var use *usageError
	typed := errors.As(err, &use)
	unknown := !typed && strings.HasPrefix(err.Error(), "unknown command ")
	if unknown && !strings.Contains(err.Error(), "\n") { // no command has a name like it
		err = fmt.Errorf("%w; see %s --help", err, root.Name())
	}
	fmt.Fprintf(root.ErrOrStderr(), "ringside: %s\n", printable(err.Error())+whoSet(cmd, err))
	if !typed && !unknown {
		return 1
	}
	for ; cmd != nil; cmd = cmd.Parent() {
		if cmd.Annotations[oneForUsage] != "" {
			return 1
		}
	}
	return 2
}

// exitError gives the program an exit status, such as that of another program.
type exitError struct {
	error
	code int
}

// Unwrap returns the error itself.
func (e *exitError) Unwrap() error { return e.error }

// usageError is a mistake in what the user typed.
type usageError struct{ msg string }

func (e *usageError) Error() string { return e.msg }

func usagef(format string, a ...any) error { return &usageError{fmt.Sprintf(format, a...)} }

// noArgs is for commands that take flags alone.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 && cmd.HasSubCommands() {
		return unknownCommand(cmd, args[0])
	}
	if len(args) > 0 {
		return usagef("%q: %s takes no arguments%s; see %s --help", args[0], cmd.CommandPath(), argumentHint(cmd.Flags(), args), cmd.CommandPath())
	}
	return nil
}

// positive refuses values below 1 of flags for which a zero that wasn't typed means a
// default.
func positive(flags *pflag.FlagSet, names ...string) error {
	for _, name := range names {
		f := flags.Lookup(name)
		if x, err := strconv.ParseFloat(f.Value.String(), 64); f.Changed && !(err == nil && x > 0) {
			return usagef("--%s %s: expected above 0; leave it out for the default", name, f.Value)
		}
	}
	return nil
}

// notEmpty refuses an empty text, such as an unset variable of the shell. Without it
// --checkpoint "" would train for hours and keep nothing.
func notEmpty(flags *pflag.FlagSet) error {
	var err error
	flags.Visit(func(f *pflag.Flag) {
		none := f.Value.Type() == "string" && f.Value.String() == "" || f.Value.Type() == "stringSlice" && f.Value.String() == "[]"
		if err == nil && none && f.DefValue == f.Value.String() {
			advice := "; it is the " + f.Usage
			if strings.Contains(f.Usage, "(default") {
				advice = "; leave it out for the default"
			}
			err = usagef("--%s \"\": expected not to be empty%s", f.Name, advice)
		}
	})
	return err
}

// flagError rewrites the error of a value that is not of its flag's type: it names the
// type and its values.
func flagError(err error) string {
	var bad *pflag.InvalidValueError
	if !errors.As(err, &bad) {
		return err.Error()
	}
	f := bad.GetFlag()
	return fmt.Sprintf("--%s %q: %s", f.Name, bad.GetValue(), expected(f, bad))
}

// expected is what values a flag takes, where err is about one that it doesn't.
func expected(f *pflag.Flag, err error) string {
	kind := f.Value.Type()
	if errors.Is(err, strconv.ErrRange) && kind != "intSlice" && kind != "float64" {
		kind += " below"
	}
	values := map[string]string{
		"int":          "a whole number",
		"int64":        "a whole number",
		"uint64":       "a whole number of at least 0",
		"int below":    "a whole number below 2^63",
		"int64 below":  "a whole number below 2^63",
		"uint64 below": "a whole number below 2^64",
		"intSlice":     "whole numbers with commas between them, as 1,2,4",
		"float64":      "a number, as 0.001 or 1e-3",
		"bool":         "true or false",
		"duration":     "a time with its unit, as 500ms or 2s",
	}
	if what := values[kind]; what != "" {
		return "expected " + what
	}
	return err.Error()
}

const envPrefix = "RINGSIDE_"

// variable returns the name of a flag's environment variable.
func variable(f *pflag.Flag) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
}

// fromEnv sets the flags that weren't given from RINGSIDE_ variables.
func fromEnv(flags *pflag.FlagSet, lookup func(string) (string, bool)) error {
	var err error
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Changed || f.Hidden || f.Name == "help" {
			return
		}
		name := variable(f)
		if v, ok := lookup(name); ok {
			if e := flags.Set(f.Name, v); e != nil && err == nil {
				err = usagef("%s=%q: %s", name, v, expected(f, e))
			}
			if e := flags.SetAnnotation(f.Name, setBy, []string{name}); e != nil && err == nil {
				err = e
			}
		}
	})
	return err
}

// setBy annotates a flag with the variable that set it.
const setBy = "set by a variable"

// whoSet names the variables that set the flags of cmd which err names: the user typed no
// such flag.
func whoSet(cmd *cobra.Command, err error) string {
	var out string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if by := f.Annotations[setBy]; len(by) > 0 && names(err.Error(), f) {
			out += fmt.Sprintf(" (--%s is set by %s)", f.Name, by[0])
		}
	})
	return out
}

// names reports whether a text has a flag's name, or its letter.
func names(text string, f *pflag.Flag) bool {
	for word := range strings.FieldsFuncSeq(text, func(r rune) bool { return r != '-' && !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		if word == "--"+f.Name || f.Shorthand != "" && word == "-"+f.Shorthand {
			return true
		}
	}
	return false
}

// logsFrom has logger return one of the level that --log-level names.
func logsFrom(cmd *cobra.Command) error {
	name, err := cmd.Flags().GetString("log-level")
	if err != nil {
		return err
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(name)); err != nil {
		return usagef("--log-level %q: expected debug, info, warn or error", name)
	}
	log := slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: level}))
	cmd.SetContext(context.WithValue(cmd.Context(), logKey{}, log))
	return nil
}

type logKey struct{}

// logger returns what logsFrom made before the command ran.
func logger(cmd *cobra.Command) *slog.Logger { return cmd.Context().Value(logKey{}).(*slog.Logger) }

// thisProgram returns the path of this binary.
func thisProgram() (string, error) {
	exe, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("finding this program: %w: mount /proc here", err)
	}
	return exe, nil
}

// self makes a command of this binary, whose errors come out where ours do.
func self(errOut io.Writer) (func(args ...string) *exec.Cmd, error) {
	exe, err := thisProgram()
	if err != nil {
		return nil, err
	}
	return func(args ...string) *exec.Cmd {
		c := exec.Command(exe, args...)
		c.Stderr = errOut
		return c
	}, nil
}
