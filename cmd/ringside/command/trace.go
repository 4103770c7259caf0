package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ringside-go/ringside/shm/limits"
	"github.com/ringside-go/ringside/shm/plain"
	"github.com/ringside-go/ringside/tensor/cluster"
	"github.com/ringside-go/ringside/tensor/cluster/client"
	"github.com/ringside-go/ringside/tensor/cluster/trace"
)

func newTrace() *cobra.Command {
	var (
		addr    string
		far     keys
		seconds float64
		rec     recording
	)
	c := &cobra.Command{
		Use:   "trace",
		Short: "write down what workers do, for a timeline",
		Long: `Trace asks the workers of a dispatcher what they do, message by message, program by program and collective by collective, and writes
it as Chrome's trace events, which https://ui.perfetto.dev and chrome://tracing open. Workers keep their last 65,536 events; if they do more
between two questions, the rest is lost, which is said, and stands in the file. train --trace writes one of a whole run, with what the
client does; trace view says where the time of such a file went.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if rec.path == "" {
				return usagef("-o FILE is needed: where the trace goes")
			}
			if !(seconds > 0 && seconds <= 3600) {
				return usagef("--seconds %v: expected above 0 and at most 3600", seconds)
			}
			w, err := watcher(cmd.Context(), addr, &far)
			if err != nil {
				return err
			}
			rec.out = cmd.OutOrStdout()
			if err := rec.begin(cmd.Context(), w); err != nil {
				return err
			}
			select {
			case <-cmd.Context().Done(): // what there is is a trace
			case <-rec.Done():
			case <-time.After(time.Duration(seconds * float64(time.Second))):
			}
			said := cmd.OutOrStdout()
			if rec.path == "-" || rec.log == "-" {
				said = cmd.ErrOrStderr()
			}
			return rec.end(said, cmd.ErrOrStderr())
		},
	}
	c.Flags().StringVarP(&rec.path, "output", "o", "", "file to write; - is standard output")
	c.Flags().StringVar(&addr, "connect", "", "address of the dispatcher (default: this user's)")
	far.flags(c.Flags())
	c.Flags().Float64Var(&seconds, "seconds", 5, "for how long; an interrupt ends it earlier")
	rec.more(c.Flags())
	c.AddCommand(newTraceView())
	return c
}

// recording is a trace.Recorder and its files.
type recording struct {
	*trace.Recorder           // nil before begin
	path, log       string    // empty for none
	mib             int       // most of each
	out             io.Writer // for path -; nil where that is a file's name

	monitor *client.Monitor
	files   []*os.File
}

// flags are those of commands that run what is traced.
func (r *recording) flags(f *pflag.FlagSet) {
	f.StringVar(&r.path, "trace", "", "file for a timeline of the whole run, which trace view and https://ui.perfetto.dev read")
	r.more(f)
}

func (r *recording) more(f *pflag.FlagSet) {
	f.StringVar(&r.log, "log", "", "file for the same events as text, a line each")
	f.IntVar(&r.mib, "trace-mib", trace.DefaultMaxBytes>>20, "most that a file of events may have; the events after that are counted")
}

// wanted reports whether there is something to record.
func (r *recording) wanted() bool { return r.path != "" || r.log != "" }

// begin starts recording. It takes the monitor over.
func (r *recording) begin(ctx context.Context, m *client.Monitor) (err error) {
	r.monitor = m
	defer func() {
		if err != nil {
			_ = r.close()
		}
	}()
	o, err := r.options()
	if err != nil {
		return err
	}
	r.Recorder, err = trace.Start(ctx, m, o)
	return err
}

// check checks the flags.
func (r *recording) check() error {
	if r.mib < 1 || r.mib > maxTraceMiB {
		return usagef("--trace-mib %d: expected 1 to %d", r.mib, maxTraceMiB)
	}
	for _, f := range []struct{ flag, path, file string }{{"--trace", r.path, "run.json"}, {"--log", r.log, "run.log"}} {
		if f.path == "-" && r.out == nil {
			return usagef("%s -: the command's own output goes to standard output; expected a file, such as %[1]s %s, or ./- for one of that name", f.flag, f.file)
		}
	}
	if r.path == "-" && r.log == "-" {
		return usagef("-o - and --log - exclude each other: both would be one output")
	}
	return nil
}

// options makes the files.
func (r *recording) options() (o *trace.Options, err error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	o = &trace.Options{MaxBytes: int64(r.mib) << 20}
	flag := "--trace"
	if r.out != nil { // ringside trace
		flag = "-o"
	}
	if o.Trace, err = r.create(flag, r.path); err != nil {
		return nil, err
	}
	o.Log, err = r.create("--log", r.log)
	return o, err
}

// of begins to record c, if that is wanted.
func (r *recording) of(ctx context.Context, c *cluster.Cluster) error {
	if !r.wanted() {
		return nil
	}
	m, err := client.NewMonitor(ctx, nil, c.Addr())
	if err != nil {
		return err
	}
	return r.begin(ctx, m)
}

// maxTraceMiB is more than a viewer opens.
const maxTraceMiB = 1 << 16

// create makes the file of a flag; nil for no name.
func (r *recording) create(flag, path string) (io.Writer, error) {
	switch {
	case path == "":
		return nil, nil
	case path == "-" && r.out != nil:
		return r.out, nil
	}
	f, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w, expected the name of a file that can be made", flag, plain.Path(limits.Written(path, err)))
	}
	r.files = append(r.files, f)
	return f, nil
}

func (r *recording) close() error {
	var errs []error
	if r.monitor != nil { // ranks have none
		errs = append(errs, r.monitor.Close())
	}
	for _, f := range r.files {
		errs = append(errs, f.Close())
	}
	r.files = nil
	return errors.Join(errs...)
}

// end completes the files, and says what is in them. After an error, or if it did not
// begin, it does nothing.
func (r *recording) end(said, warn io.Writer) error {
	if r.Recorder == nil {
		return nil
	}
	name := r.path
	switch {
	case name == "":
		name = r.log
	case name == "-" && r.out != nil:
		name = "standard output"
	}
	rec := r.Recorder
	r.Recorder = nil
	err := rec.Stop()
	var cut string
	if errors.As(err, new(*fs.PathError)) { // of a file
		cut = fmt.Sprintf("; the events from %v on are missing in it", rec.Kept().Round(time.Millisecond))
	}
	if err = errors.Join(err, r.close()); err != nil {
		return fmt.Errorf("%w%s", named(name, err), cut)
	}
	n, workers, lost, dropped := rec.Events()
	full, needed := rec.Room()
	fmt.Fprintf(said, "%s of %s in %s\n", plain.Count(n, "event"), plain.Count(workers, "worker"), plain.Name(name))
	if lost > 0 {
		fmt.Fprintf(warn, "lost %s: more happened between two questions than is kept\n", plain.Count(lost, "event"))
	}
	if dropped > 0 {
		fmt.Fprintf(warn, "%s was full after %v, and had no room for %s: --trace-mib %d is the most that it may have, %d would hold all\n",
			plain.Name(name), full.Round(100*time.Millisecond), plain.Count(dropped, "event"), r.mib, needed>>20+1)
	}
	return nil
}
