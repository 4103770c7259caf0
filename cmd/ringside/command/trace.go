package command

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/ringside-go/ringside/collective/protocol"
	"github.com/ringside-go/ringside/tensor/cluster/client"
	"github.com/ringside-go/ringside/tensor/cluster/metrics"
)

// traceEvery is the time between two questions to a worker. Workers keep more events than
// that.
const traceEvery = 50 * time.Millisecond

func newTrace() *cobra.Command {
	var (
		addr, secretFile, path string
		seconds                float64
	)
	c := &cobra.Command{
		Use:   "trace",
		Short: "write down what workers do, for a timeline",
		Long: `Trace asks the workers of a dispatcher what they do, message by message, program by program and collective by collective, and writes
it as Chrome's trace events, which https://ui.perfetto.dev and chrome://tracing open. Workers keep their last 65,536 events; if they do more
between two questions, the rest is lost, which is said, and stands in the file.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if path == "" {
				return usagef("-o FILE is needed: where the trace goes")
			}
			if !(seconds > 0 && seconds <= 3600) {
				return usagef("--seconds %v: expected above 0 and at most 3600", seconds)
			}
			w, err := watcher(cmd.Context(), addr, secretFile)
			if err != nil {
				return err
			}
			defer w.Close()
			out, said := cmd.OutOrStdout(), cmd.OutOrStdout()
			end := func() error { return nil }
			if path == "-" {
				said = cmd.ErrOrStderr()
			} else {
				f, err := os.Create(path)
				if err != nil {
					return err
				}
				out, end = f, f.Close
			}
			tr := newTraceWriter(out)
			err = tr.record(cmd.Context(), w, time.Duration(seconds*float64(time.Second)))
			if cmd.Context().Err() != nil {
				err = nil // interrupted: what there is is a trace
			}
			if err = errors.Join(err, tr.end(), end()); err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
			fmt.Fprintf(said, "%d events of %d workers in %s\n", tr.events, len(tr.workers), path)
			if tr.lost > 0 {
				fmt.Fprintf(cmd.ErrOrStderr(), "%d events were lost: workers did more between two questions than they keep\n", tr.lost)
			}
			return nil
		},
	}
	c.Flags().StringVarP(&path, "output", "o", "", "file to write; - is standard output")
	c.Flags().StringVar(&addr, "connect", "", "address of the dispatcher (default: this user's)")
	secretFlag(c.Flags(), &secretFile)
	c.Flags().Float64Var(&seconds, "seconds", 5, "for how long; an interrupt ends it earlier")
	return c
}

// traceWriter writes events as they come; it keeps none of them.
type traceWriter struct {
	w *bufio.Writer
	// origin is the begin in nanoseconds since 1970. A float64 of microseconds since then
	// has no room for fractions.
	origin  int64
	err     error
	events  int
	lost    uint64
	workers map[string]*tracedWorker

	processes int // of the file, of which the dispatcher is the first
}

// tracedWorker is a worker of a trace: a process of the timeline.
type tracedWorker struct {
	process int // of the file: numbers of the system may be the same on two hosts
	pid     uint64
	next    uint64 // the event to ask for
	asked   bool   // and no answer yet
	known   bool   // next is
}

// traceEvent is one of the format's: times are microseconds.
type traceEvent struct {
	Name  string         `json:"name"`
	Cat   string         `json:"cat,omitempty"`
	Phase string         `json:"ph"`
	TS    float64        `json:"ts"`
	Dur   *float64       `json:"dur,omitempty"`
	PID   int            `json:"pid"`
	TID   uint64         `json:"tid"`
	ID    string         `json:"id,omitempty"`
	Scope string         `json:"s,omitempty"`
	Args  map[string]any `json:"args,omitempty"`
}

// traceThread is a worker's goroutine in its process: messages, and in them programs and
// collectives.
const traceThread = 1

func newTraceWriter(w io.Writer) *traceWriter {
	t := &traceWriter{w: bufio.NewWriter(w), origin: time.Now().UnixNano(), workers: map[string]*tracedWorker{}}
	_, t.err = t.w.WriteString(`{"displayTimeUnit":"ns","traceEvents":[`)
	return t
}

// at is a time of the trace.
func (t *traceWriter) at(ns uint64) float64 { return float64(int64(ns)-t.origin) / 1e3 }

// put writes one event.
func (t *traceWriter) put(e *traceEvent) {
	if t.err != nil {
		return
	}
	if t.events > 0 {
		t.w.WriteByte(',')
	}
	t.w.WriteByte('\n')
	var b []byte
	if b, t.err = json.Marshal(e); t.err == nil {
		_, t.err = t.w.Write(b)
	}
	t.events++
}

// end makes the file whole.
func (t *traceWriter) end() error {
	if t.err == nil {
		_, t.err = t.w.WriteString("\n]}\n")
	}
	return errors.Join(t.err, t.w.Flush())
}

// record writes what happens from now on, for so long.
func (t *traceWriter) record(ctx context.Context, w *client.Monitor, long time.Duration) error {
	until, cancel := context.WithTimeout(ctx, long)
	defer cancel()
	for {
		if err := t.round(until, w); err != nil {
			if until.Err() != nil && t.err == nil {
				return ctx.Err()
			}
			return err
		}
		select {
		case <-until.Done():
			return ctx.Err()
		case <-time.After(traceEvery):
		}
	}
}

// round asks every worker that owes no answer, and takes answers until no worker has more
// to tell or one takes too long.
func (t *traceWriter) round(ctx context.Context, w *client.Monitor) error {
	if err := w.AskDispatcher(ctx); err != nil {
		return err
	}
	patience, cancel := context.WithTimeout(ctx, traceEvery)
	defer cancel()
	for open := 1; open > 0; {
		a, err := w.Next(patience)
		if err != nil {
			if ctx.Err() == nil && patience.Err() != nil {
				return t.err
			}
			return err
		}
		switch a := a.(type) {
		case client.Counters:
			open--
			t.dispatcher(a)
			for _, name := range metrics.WorkersOf(a) {
				x := t.worker(name, a.Get(metrics.OfWorker(name, metrics.PID)))
				if !x.asked {
					if err := t.ask(ctx, w, name, x); err != nil {
						return err
					}
				}
				open++
			}
		case *client.WorkerReport:
			x := t.workers[a.Worker]
			if x == nil {
				continue
			}
			open--
			t.answer(x, a)
			if a.More {
				if err := t.ask(ctx, w, a.Worker, x); err != nil {
					return err
				}
				open++
			}
		}
	}
	return t.err
}

func (t *traceWriter) ask(ctx context.Context, w *client.Monitor, name string, x *tracedWorker) error {
	x.asked = true
	return w.Ask(ctx, client.Question{Events: true, Since: x.next, Worker: name})
}

// worker finds a worker, or begins one.
func (t *traceWriter) worker(name string, pid uint64) *tracedWorker {
	x := t.workers[name]
	if x == nil || x.pid != pid { // it is there for the first time, or was started again
		x = &tracedWorker{process: t.process(fmt.Sprintf("worker %s (process %d)", name, pid)), pid: pid}
		t.workers[name] = x
		t.put(&traceEvent{Name: "thread_name", Phase: "M", PID: x.process, TID: traceThread, Args: map[string]any{"name": "messages"}})
	}
	return x
}

// process begins a process of the file.
func (t *traceWriter) process(name string) int {
	t.processes++
	t.put(&traceEvent{Name: "process_name", Phase: "M", PID: t.processes, Args: map[string]any{"name": name}})
	return t.processes
}

// dispatcher writes the dispatcher's counters.
func (t *traceWriter) dispatcher(a client.Counters) {
	if t.processes == 0 {
		t.process(fmt.Sprintf("dispatcher (process %d)", a.Get(metrics.PID)))
	}
	t.put(&traceEvent{Name: "dispatcher", Phase: "C", TS: t.at(uint64(time.Now().UnixNano())), PID: 1,
		Args: map[string]any{metrics.Messages: a.Get(metrics.Messages), metrics.Sessions: a.Get(metrics.Sessions)}})
}

// answer writes what a worker did.
func (t *traceWriter) answer(x *tracedWorker, a *client.WorkerReport) {
	x.asked = false
	if x.known && a.First > x.next {
		t.lost += a.First - x.next
		t.put(&traceEvent{Name: fmt.Sprintf("%d events lost", a.First-x.next), Phase: "i", Scope: "p", TS: t.at(a.Now), PID: x.process, TID: traceThread})
	}
	for i := range a.Events {
		t.event(x.process, a.First+uint64(i), &a.Events[i])
	}
	x.next, x.known = a.First+uint64(len(a.Events)), true
}

// event writes one event of a worker.
func (t *traceWriter) event(process int, number uint64, e *client.Event) {
	took := float64(e.Took) / 1e3
	out := traceEvent{Phase: "X", TS: t.at(e.Begin), Dur: &took, PID: process, TID: traceThread, Args: map[string]any{"session": e.Session}}
	switch e.Kind {
	case client.EventMessage:
		out.Name, out.Cat = e.Message(), "message"
		out.Args["bytes"] = e.Bytes
	case client.EventProgram:
		out.Name, out.Cat = fmt.Sprintf("program %08x", uint32(e.What>>32)), "program"
		out.Args["instructions"] = e.Bytes
	case client.EventCollective, client.EventOverlapped:
		out.Name, out.Cat = "unknown collective", "collective"
		if k := protocol.Kind(e.What); e.What < 256 && k.Valid() {
			out.Name = k.String()
		}
		out.Args["bytes"] = e.Bytes
	default:
		return // of a newer worker
	}
	// An overlapped collective may begin in one program and end in another: it is an
	// asynchronous event, written as two.
	if e.Kind == client.EventOverlapped {
		out.Phase, out.Dur, out.ID = "b", nil, fmt.Sprint(number)
		t.put(&out)
		out.Phase, out.TS, out.Args = "e", out.TS+took, nil
	}
	t.put(&out)
}
