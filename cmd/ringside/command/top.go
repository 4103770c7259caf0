package command

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gdamore/tcell/v2"
	"github.com/spf13/cobra"

	"github.com/ringside-go/ringside/ipc/local"
	"github.com/ringside-go/ringside/shm/plain"
	"github.com/ringside-go/ringside/tensor/cluster/client"
	"github.com/ringside-go/ringside/tensor/cluster/metrics"
)

func newTop() *cobra.Command {
	var (
		addr         string
		far          keys
		interval     time.Duration
		once, asJSON bool
	)
	c := &cobra.Command{
		Use:   "top",
		Short: "show what a dispatcher and its workers do, again and again",
		Long: `Top asks a dispatcher and its workers every so often what they did, and shows how busy each worker is, how much of that
it waited in collectives, what waits for it, its device and how much of its memory tensors use, how many of its runs found their plan, its operations by kind, and the sessions that worked
most. Training runs that tell of themselves come first, on a terminal with the curve of the loss. A narrow terminal gets fewer columns; its
keys are q to quit, tab for another run's curve, space to pause, the arrows to scroll. With --json there is more of each, its programs and plans for instance: how many it keeps, of how many bytes, and how many it
compiled, found and gave up so far. Workers on GPUs have a second table: kernels launched, steps left to the host,
bytes copied, and calls of the driver. It ends when it is interrupted. A worker measures only while it is asked; one that runs a long program answers when that is
done, and until then is said to be silent.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if interval < 10*time.Millisecond {
				return usagef("--interval %v: expected 10ms or more", interval)
			}
			w, err := watcher(cmd.Context(), addr, &far)
			if err != nil {
				return err
			}
			defer w.Close()
			err = top(cmd.Context(), w, cmd.OutOrStdout(), interval, once, asJSON)
			if cmd.Context().Err() != nil {
				return nil // interrupted, as it was to be
			}
			return err
		},
	}
	c.Flags().StringVar(&addr, "connect", "", "address of the dispatcher (default: this user's)")
	far.flags(c.Flags())
	c.Flags().DurationVar(&interval, "interval", time.Second, "time between two looks")
	c.Flags().BoolVar(&once, "once", false, "print one interval and end")
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object an interval")
	return c
}

// watcher connects to the dispatcher at addr, or to this user's.
func watcher(ctx context.Context, addr string, far *keys) (*client.Monitor, error) {
	addr = cmp.Or(addr, local.DispatcherAddr(local.Dir()))
	secret, tls, err := far.read()
	if err != nil {
		return nil, err
	}
	w, err := client.NewMonitor(ctx, &client.Options{Secret: secret, TLS: tls}, addr)
	if err != nil {
		return nil, advised(err, addr)
	}
	return w, nil
}

// top shows a report an interval: on a screen that is drawn over, as JSON, or as tables
// one after the other.
func top(ctx context.Context, w *client.Monitor, out io.Writer, interval time.Duration, once, asJSON bool) error {
	cols, draws := terminal(out)
	if draws && !once && !asJSON {
		// On a terminal that tcell doesn't know tables follow one another.
		if screen, err := tcell.NewScreen(); err == nil && screen.Init() == nil {
			defer screen.Fini()
			return newTopScreen(screen).run(ctx, func(ctx context.Context, each func(*metrics.Report) error) error {
				return follow(ctx, w, interval, each)
			})
		}
	}
	enc := json.NewEncoder(out)
	err := follow(ctx, w, interval, func(r *metrics.Report) error {
		var err error
		if asJSON {
			err = enc.Encode(r)
		} else if err = writeTop(out, r, cols); err == nil && !once {
			_, err = fmt.Fprintln(out)
		}
		if err == nil && once {
			err = errOnce
		}
		return err
	})
	if errors.Is(err, errOnce) {
		return nil
	}
	return err
}

// errOnce ends follow after the first report.
var errOnce = errors.New("one report was wanted")

// follow calls each with a report an interval until ctx is done or each returns an error.
func follow(ctx context.Context, w *client.Monitor, interval time.Duration, each func(*metrics.Report) error) error {
	last, err := sampleNow(ctx, w, nil, interval)
	if err != nil {
		return err
	}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Until(last.At.Add(interval))):
		}
		now, err := sampleNow(ctx, w, last, interval)
		if err != nil {
			return err
		}
		if err := each(metrics.Compare(last, now)); err != nil {
			return err
		}
		last = now
	}
}

const (
	topBar      = 10 // cells of a worker's bar
	topSessions = 10 // sessions that the table has
	topOps      = 8  // operations
)

// busyBar is a part of 1 in cells, those in which it only waited thin.
func busyBar(busy, waiting float64) string {
	full := min(max(int(busy*topBar+0.5), 0), topBar)
	thin := min(max(int(waiting*topBar+0.5), 0), full)
	return strings.Repeat("#", full-thin) + strings.Repeat("-", thin) + strings.Repeat(".", topBar-full)
}

func percent(x float64) string { return fmt.Sprintf("%.0f%%", 100*x) }

// The columns of the tables, and those that a narrow terminal does without, the first
// ones first.
var (
	workerColumns  = []string{"worker", "pid", "busy", "", "waits", "sessions", "runs/s", "plan hits", "collectives/s", "sent B/s", "backlog", "queued B", "memory B", "device", "device B"}
	workerSpare    = []string{"device", "pid", "queued B", "plan hits", "sent B/s", "collectives/s", "backlog", "device B", "memory B", "waits", "busy", "sessions"}
	gpuColumns     = []string{"GPU of", "launches/s", "graphs/s", "captures", "host steps/s", "up B/s", "down B/s", "calls/s", "calls/run", "IPC opens"}
	gpuSpare       = []string{"IPC opens", "calls/s", "calls/run", "down B/s", "up B/s", "captures", "host steps/s", "graphs/s"}
	runColumns     = []string{"training", "pid", "step", "of", "loss", "learning rate", "items/s", "left"}
	runSpare       = []string{"pid", "items/s", "learning rate", "left", "of"}
	sessionColumns = []string{"session", "name", "worker", "of", "busy", "waits", "runs/s", "backlog"}
	sessionSpare   = []string{"of", "backlog", "waits", "worker"}
)

// writeTop prints a report as tables, in lines of at most cols characters; 0 is no limit.
func writeTop(w io.Writer, r *metrics.Report, cols int) error {
	var b strings.Builder
	d := &r.Dispatcher
	wrap(&b, []string{
		r.Time.Format(time.TimeOnly) + "  " + plain.Count(d.Clients, "client"),
		fmt.Sprintf("%s (%d waiting for workers)", plain.Count(d.Sessions, "session"), d.Waiting),
		fmt.Sprintf("%s; dispatcher: %s messages/s", plain.Count(len(r.Workers), "worker"), count(d.Messages)),
		count(d.Bytes) + "B/s",
		fmt.Sprintf("of tensors %sB/s", count(d.TensorBytes)),
	}, cols)
	b.WriteByte('\n')
	if rows := runRows(r); len(rows) > 1 {
		writeTable(&b, rows, runSpare, cols)
		b.WriteByte('\n')
	}
	rows := [][]string{workerColumns}
	for i := range r.Workers {
		x := &r.Workers[i]
		row := []string{cell(x.Name), fmt.Sprint(x.PID), busyBar(x.Busy, x.Waiting), percent(x.Busy), percent(x.Waiting), fmt.Sprint(x.Sessions), count(x.Runs), "-",
			count(x.Collectives), count(x.MovedBytes), fmt.Sprint(x.Backlog), count(float64(x.QueuedBytes)),
			fmt.Sprintf("%s of %s", count(float64(x.ArenaInUse)), count(float64(x.ArenaBytes))),
			cell(x.Device), deviceMemory(x)}
		if x.Runs > 0 {
			row[7] = percent(x.PlanHits / x.Runs)
		}
		if x.Silent > 0 { // only what the dispatcher knows
			row = []string{cell(x.Name), fmt.Sprint(x.PID), fmt.Sprintf("silent for %.1fs", x.Silent), "", "", fmt.Sprint(x.Sessions), "", "", "", "", "", count(float64(x.QueuedBytes)), "", cell(x.Device), deviceMemory(x)}
		}
		rows = append(rows, row)
	}
	writeTable(&b, rows, workerSpare, cols)
	if rows = gpuRows(r); len(rows) > 1 {
		b.WriteByte('\n')
		writeTable(&b, rows, gpuSpare, cols)
	}
	if len(r.Sessions) > 0 {
		rows = [][]string{sessionColumns}
		for _, s := range r.Sessions[:min(len(r.Sessions), topSessions)] {
			rows = append(rows, []string{fmt.Sprint(s.ID), cell(s.Name), cell(s.Worker), fmt.Sprint(s.Workers), percent(s.Busy), percent(s.Waiting), count(s.Runs), fmt.Sprint(s.Backlog)})
		}
		b.WriteByte('\n')
		writeTable(&b, rows, sessionSpare, cols)
	}
	if len(r.Ops) > 0 {
		names := slices.SortedFunc(maps.Keys(r.Ops), func(a, b string) int { return cmp.Or(cmp.Compare(r.Ops[b], r.Ops[a]), strings.Compare(a, b)) })
		var ops []string
		for _, n := range names[:min(len(names), topOps)] {
			ops = append(ops, fmt.Sprintf("%s %s", cell(n), count(r.Ops[n])))
		}
		if more := len(names) - len(ops); more > 0 {
			ops = append(ops, "and "+plain.Count(more, "other"))
		}
		ops[0] = "operations/s: " + ops[0]
		b.WriteByte('\n')
		wrap(&b, ops, cols)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// runRows is the table of training runs, headings first, with those that go on before
// those that are over.
func runRows(r *metrics.Report) [][]string {
	rows := [][]string{runColumns}
	for _, t := range inOrder(r.Trainings) {
		left := (time.Duration(t.Left) * time.Second).String()
		if t.Over {
			left = "over"
		}
		rows = append(rows, []string{cell(t.Name), fmt.Sprint(t.PID), fmt.Sprint(t.Step), fmt.Sprint(t.Steps), fmt.Sprintf("%.4f", t.Loss), fmt.Sprintf("%.3g", t.LR), count(t.Rate), left})
	}
	return rows
}

// inOrder returns the first runs to show: those that go on, and the newest.
func inOrder(all []metrics.Training) []metrics.Training {
	all = slices.Clone(all)
	over := map[bool]int{true: 1}
	slices.SortStableFunc(all, func(a, b metrics.Training) int { return cmp.Or(over[a.Over]-over[b.Over], cmp.Compare(b.Run, a.Run)) })
	return all[:min(len(all), topSessions)]
}

// gpuRows is the table of what GPUs did, headings first.
func gpuRows(r *metrics.Report) [][]string {
	rows := [][]string{gpuColumns}
	for i := range r.Workers {
		if g := r.Workers[i].GPU; g != nil {
			rows = append(rows, []string{cell(r.Workers[i].Name), count(g.Launches), count(g.Replays), fmt.Sprint(g.Captures), count(g.HostSteps), count(g.UpBytes), count(g.DownBytes),
				count(g.Calls), count(g.RunCalls), fmt.Sprint(g.Opens)})
		}
	}
	return rows
}

// deviceMemory is how much of its device's memory the values of a worker use. Of cores
// without a bound it is that of the column before.
func deviceMemory(x *metrics.Worker) string {
	if x.DeviceBytes == 0 {
		return "-"
	}
	return fmt.Sprintf("%s of %s", count(float64(x.DeviceUsed)), count(float64(x.DeviceBytes)))
}

// wrap prints parts with commas between them, on as few lines of cols characters as it
// takes.
func wrap(b *strings.Builder, parts []string, cols int) {
	at := 0
	for i, p := range parts {
		if i < len(parts)-1 {
			p += ","
		}
		n := utf8.RuneCountInString(p)
		switch {
		case at == 0:
		case cols > 0 && at+1+n > cols:
			b.WriteByte('\n')
			at = 0
		default:
			b.WriteByte(' ')
			at++
		}
		b.WriteString(cut(p, cols))
		at += n
	}
	b.WriteByte('\n')
}

// cut returns the first cols characters of a line; 0 is no limit.
func cut(line string, cols int) string {
	if cols > 0 && utf8.RuneCountInString(line) > cols {
		return string([]rune(line)[:cols])
	}
	return line
}

// writeTable prints rows, headings first, in columns. It leaves out the columns of spare,
// in that order, until a line fits into cols characters, and cuts what is still longer.
func writeTable(b *strings.Builder, rows [][]string, spare []string, cols int) {
	widths, all := make([]int, len(rows[0])), 0
	for c := range widths {
		for _, row := range rows {
			widths[c] = max(widths[c], utf8.RuneCountInString(row[c])+2)
		}
		all += widths[c]
	}
	for _, name := range spare {
		if cols <= 0 || all-2 <= cols {
			break
		}
		c := slices.Index(rows[0], name)
		all -= widths[c]
		widths[c] = 0
	}
	for _, row := range rows {
		var line strings.Builder
		for c, cell := range row {
			if widths[c] > 0 {
				line.WriteString(cell + strings.Repeat(" ", widths[c]-utf8.RuneCountInString(cell)))
			}
		}
		b.WriteString(strings.TrimRight(cut(line.String(), cols), " ") + "\n")
	}
}
