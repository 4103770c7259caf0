package command

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/ringside-go/ringside/ipc/local"
	"github.com/ringside-go/ringside/tensor/cluster/client"
	"github.com/ringside-go/ringside/tensor/cluster/metrics"
)

func newTop() *cobra.Command {
	var (
		addr, secretFile string
		interval         time.Duration
		once, asJSON     bool
	)
	c := &cobra.Command{
		Use:   "top",
		Short: "show what a dispatcher and its workers do, again and again",
		Long: `Top asks a dispatcher and its workers every so often what they did, and shows how busy each worker is, how much of that
it waited in collectives, what waits for it, how many of its runs found their plan, its operations by kind, and the sessions that worked
most. With --json there is more of each, its programs and plans for instance: how many it keeps, of how many bytes, and how many it
compiled, found and gave up so far. It ends when it is interrupted. A worker measures only while somebody looks; one that runs a long program answers when that is
done, and until then is said to be silent.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if interval < 10*time.Millisecond {
				return usagef("--interval %v: expected 10ms or more", interval)
			}
			w, err := watcher(cmd.Context(), addr, secretFile)
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
	secretFlag(c.Flags(), &secretFile)
	c.Flags().DurationVar(&interval, "interval", time.Second, "time between two looks")
	c.Flags().BoolVar(&once, "once", false, "print one interval and end")
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object an interval")
	return c
}

// watcher connects to the dispatcher at addr, or to this user's.
func watcher(ctx context.Context, addr, secretFile string) (*client.Monitor, error) {
	addr = cmp.Or(addr, local.DispatcherAddr(local.Dir()))
	secret, err := readSecret(secretFile)
	if err != nil {
		return nil, err
	}
	w, err := client.NewMonitor(ctx, &client.Options{Secret: secret}, addr)
	if err != nil {
		return nil, advised(err, addr)
	}
	return w, nil
}

// top prints a report an interval.
func top(ctx context.Context, w *client.Monitor, out io.Writer, interval time.Duration, once, asJSON bool) error {
	_, draws := terminal(out)
	last, err := sampleNow(ctx, w, nil, interval)
	if err != nil {
		return err
	}
	enc := json.NewEncoder(out)
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
		r := metrics.Compare(last, now)
		last = now
		switch {
		case asJSON:
			err = enc.Encode(r)
		case draws && !once:
			var b bytes.Buffer
			b.WriteString("\x1b[H\x1b[2J") // from the top of an empty screen
			writeTop(&b, r)
			_, err = out.Write(b.Bytes())
		default:
			err = writeTop(out, r)
			if !once && err == nil {
				_, err = fmt.Fprintln(out)
			}
		}
		if err != nil || once {
			return err
		}
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

// writeTop prints a report as tables.
func writeTop(w io.Writer, r *metrics.Report) error {
	d := &r.Dispatcher
	fmt.Fprintf(w, "%s  %d clients, %d sessions (%d wait for workers), %d workers; dispatcher: %s messages/s, %sB/s, of tensors %sB/s\n\n",
		r.Time.Format(time.TimeOnly), d.Clients, d.Sessions, d.Waiting, len(r.Workers), count(d.Messages), count(d.Bytes), count(d.TensorBytes))
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "worker\tpid\tbusy\t\twaits\tsessions\truns/s\tplan hits\tcollectives/s\tsent B/s\tbacklog\tqueued B\tmemory B")
	for i := range r.Workers {
		x := &r.Workers[i]
		if x.Silent > 0 {
			fmt.Fprintf(tw, "%s\t%d\tsilent for %.1fs\t\t\t%d\t\t\t\t\t\t%s\t\n", x.Name, x.PID, x.Silent, x.Sessions, count(float64(x.QueuedBytes)))
			continue
		}
		hits := "-"
		if x.Runs > 0 {
			hits = percent(x.PlanHits / x.Runs)
		}
		fmt.Fprintf(tw, "%s\t%d\t%s\t%s\t%s\t%d\t%s\t%s\t%s\t%s\t%d\t%s\t%s of %s\n", x.Name, x.PID, busyBar(x.Busy, x.Waiting), percent(x.Busy), percent(x.Waiting),
			x.Sessions, count(x.Runs), hits, count(x.Collectives), count(x.MovedBytes), x.Backlog, count(float64(x.QueuedBytes)),
			count(float64(x.ArenaInUse)), count(float64(x.ArenaBytes)))
	}
	if len(r.Sessions) > 0 {
		fmt.Fprintln(tw, "\nsession\tname\tworker\tof\tbusy\twaits\truns/s\tbacklog")
		for _, s := range r.Sessions[:min(len(r.Sessions), topSessions)] {
			fmt.Fprintf(tw, "%d\t%s\t%s\t%d\t%s\t%s\t%s\t%d\n", s.ID, s.Name, s.Worker, s.Workers, percent(s.Busy), percent(s.Waiting), count(s.Runs), s.Backlog)
		}
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	if len(r.Ops) == 0 {
		return nil
	}
	names := slices.SortedFunc(maps.Keys(r.Ops), func(a, b string) int { return cmp.Or(cmp.Compare(r.Ops[b], r.Ops[a]), strings.Compare(a, b)) })
	var ops []string
	for _, n := range names[:min(len(names), topOps)] {
		ops = append(ops, fmt.Sprintf("%s %s", n, count(r.Ops[n])))
	}
	if more := len(names) - len(ops); more > 0 {
		ops = append(ops, fmt.Sprintf("and %d others", more))
	}
	_, err := fmt.Fprintf(w, "\noperations/s: %s\n", strings.Join(ops, ", "))
	return err
}
