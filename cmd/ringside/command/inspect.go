package command

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/ringside-go/ringside/ipc/local"
	"github.com/ringside-go/ringside/tensor/cluster/client"
	"github.com/ringside-go/ringside/tensor/cluster/metrics"
)

func newInspect() *cobra.Command {
	var (
		addr   string
		pids   []int
		asJSON bool
		heads  []string // what the dispatcher knows of the processes
	)
	c := &cobra.Command{
		Use:   "inspect",
		Short: "show the rings and segments that running processes share",
		Long: `Inspect shows the shared memory of a dispatcher and its workers, or of the processes that are named:
rings with the words of their headers, the bells they sleep on, and segments of tensors. The same
inode in two processes is the same memory. First come the workers' devices, and which workers of a
session reach each other by shared memory and which by TCP, and why. The dispatcher says which its
workers are; those that came over TCP are left out. With --pid no process is asked anything, and the
processes may hang or be stopped. What they have mapped can be seen by the same user; reading the
headers takes the rights of a debugger.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if len(pids) == 0 {
				addr = cmp.Or(addr, local.DispatcherAddr(local.Dir()))
				if !filepath.IsAbs(addr) {
					return usagef("--connect %s: expected the absolute path of a dispatcher's socket: inspect looks at processes of its own host", addr)
				}
				s, err := status(cmd.Context(), nil, addr)
				if err != nil {
					return fmt.Errorf("%w; with --pid no dispatcher is needed", advised(err, addr))
				}
				pids = append(pids, int(s.Get(metrics.PID)))
				for _, name := range metrics.WorkersOf(s) {
					pid := int(s.Get(metrics.OfWorker(name, metrics.PID)))
					// The pid is one of another host.
					if s.Get(metrics.OfWorker(name, metrics.Far)) != 0 {
						fmt.Fprintf(cmd.ErrOrStderr(), "worker %s came over TCP and shares no memory here; on its own host: ringside inspect --pid %d\n", name, pid)
						continue
					}
					heads = append(heads, deviceHead(s, name, pid))
					pids = append(pids, pid)
				}
				slices.Sort(pids)
				pids = slices.Compact(pids)
				if !asJSON {
					w, err := watcher(cmd.Context(), addr, &keys{})
					if err != nil {
						return err
					}
					lines, err := workerPaths(cmd.Context(), w)
					if err = errors.Join(err, w.Close()); err != nil {
						return err
					}
					heads = append(heads, lines...)
				}
			}
			var all []local.Mapping
			for _, pid := range pids {
				m, err := local.Inspect(pid)
				if errors.Is(err, fs.ErrNotExist) {
					return fmt.Errorf("process %d is not there: %w", pid, err)
				}
				if err != nil {
					return err
				}
				all = append(all, m...)
			}
			if asJSON {
				enc := json.NewEncoder(cmd.OutOrStdout())
				for i := range all {
					if err := enc.Encode(&all[i]); err != nil {
						return err
					}
				}
				return nil
			}
			for _, h := range heads {
				fmt.Fprintln(cmd.OutOrStdout(), h)
			}
			return writeMappings(cmd.OutOrStdout(), all)
		},
	}
	c.Flags().StringVar(&addr, "connect", "", "absolute path of the dispatcher's socket (default: this user's)")
	c.Flags().IntSliceVar(&pids, "pid", nil, "processes to look at instead")
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a mapping")
	return c
}

// deviceHead says what a worker computes on, and how much of the device's memory its
// values used when the dispatcher was told last.
func deviceHead(c client.Counters, worker string, pid int) string {
	h := fmt.Sprintf("worker %s, process %d, on %s", cell(worker), pid, cell(metrics.DeviceOf(c, worker)))
	if n := c.Get(metrics.OfWorker(worker, metrics.DeviceBytes)); n > 0 {
		h += fmt.Sprintf(", %s of %s used by values", size(c.Get(metrics.OfWorker(worker, metrics.DeviceUsed))), size(n))
	}
	return h
}

func writeMappings(w io.Writer, all []local.Mapping) error {
	var table strings.Builder
	tw := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "pid\tinode\tbytes\tkind\twhat it says")
	for _, m := range all {
		var says []string
		for _, r := range m.Rings {
			s := fmt.Sprintf("version %d, capacity %d, head %d", r.Version, r.Capacity, r.Head)
			if r.Want != 0 {
				s += fmt.Sprintf(", producer waits for %d", r.Want)
			}
			says = append(says, s)
		}
		for _, b := range m.Bells {
			s := "awake"
			if b.Asleep {
				s = "asleep"
			}
			says = append(says, s)
		}
		if m.Kind == local.MappedSegment {
			mode := "for reading"
			if m.Writable {
				mode = "for writing"
			}
			file := m.File
			if file == "memfd" {
				file = "sealed memfd"
			}
			says = append(says, file+", mapped "+mode)
		}
		if m.Unread != "" {
			says = append(says, "not read: "+m.Unread)
		}
		fmt.Fprintf(tw, "%d\t%d\t%d\t%s\t%s\n", m.PID, m.Inode, m.Bytes, m.Kind, strings.Join(says, "; "))
	}
	return errors.Join(tw.Flush(), writeFitted(w, table.String()))
}
