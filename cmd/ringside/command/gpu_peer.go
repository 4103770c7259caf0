package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ringside-go/ringside/tensor/cuda/driver"
	"github.com/ringside-go/ringside/tensor/cuda/memory"
)

// trialOptions are for segments as small as the driver makes them.
var trialOptions = &memory.Options{Segment: 2 << 20, Slots: 1, Slot: 4096}

// newGPUPeer makes the command that is the other process of trySharing.
func newGPUPeer() *cobra.Command {
	return &cobra.Command{
		Use:    "gpu-peer KIND",
		Short:  "opens a segment that another process exported",
		Args:   cobra.ExactArgs(1),
		Hidden: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			api, err := openDriver()
			if err != nil {
				return err
			}
			d, err := memory.Open(api, 0, trialOptions)
			if err != nil {
				return err
			}
			var f *os.File
			if args[0] == memory.Descriptors.String() {
				f = os.NewFile(3, "segment") // the first of exec.Cmd.ExtraFiles
				defer f.Close()
			}
			return errors.Join(d.Tried(cmd.InOrStdin(), f), d.Close())
		},
	}
}

// trySharing reports whether two processes can share memory of the first device, and how
// it copies from the host.
func trySharing(ctx context.Context, api driver.API) (finding, error) {
	d, err := memory.Open(api, 0, trialOptions)
	if err != nil {
		return finding{}, err
	}
	kinds := []memory.Kind{memory.Handles, memory.Descriptors}
	var can, cannot []string
	for _, k := range kinds {
		err := d.Try(k, func(order io.Reader, f *os.File) error { return runGPUPeer(ctx, k, order, f) })
		if err == nil {
			can = append(can, k.String())
			continue
		}
		cannot = append(cannot, fmt.Sprintf("by %v: %v", k, err))
	}
	host := "its host memory is registered"
	if why := d.Info().Staged; why != nil {
		host = fmt.Sprintf("copies are staged (%v)", why)
	}
	if err := d.Close(); err != nil {
		return finding{}, err
	}
	switch why := strings.Join(cannot, "; "); len(can) {
	case len(kinds):
		return found("processes share memory by %s; %s", strings.Join(can, " and "), host), nil
	case 0:
		return warned("tensors on a GPU are copied between processes; a container needs --ipc=host, and a sandbox such as gVisor may have no IPC",
			"processes can't share memory: %s; %s", why, host), nil
	default:
		return warned("", "processes share memory by %s alone: %s; %s", can[0], why, host), nil
	}
}

// runGPUPeer starts this program as the other process.
func runGPUPeer(ctx context.Context, k memory.Kind, order io.Reader, f *os.File) error {
	exe, err := thisProgram()
	if err != nil {
		return err
	}
	cmd, out := exec.CommandContext(ctx, exe, "gpu-peer", k.String()), &bytes.Buffer{}
	cmd.Stdin, cmd.Stderr = order, out
	if f != nil {
		cmd.ExtraFiles = []*os.File{f}
	}
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("another process: %w: %s", err, strings.TrimSpace(out.String()))
	}
	return nil
}

// peersOf says which of n devices can reach the memory of each other.
func peersOf(d driver.API, n int) string {
	var can, all int
	for i := range n {
		for k := range n {
			if i == k {
				continue
			}
			all++
			a, errA := d.DeviceGet(i)
			b, errB := d.DeviceGet(k)
			ok, err := d.DeviceCanAccessPeer(a, b)
			if err := errors.Join(errA, errB, err); err != nil {
				return fmt.Sprintf("whether GPU %d reaches the memory of GPU %d is not known: %v", i, k, err)
			}
			if ok {
				can++
			}
		}
	}
	switch {
	case all == 0:
		return "no other GPU to reach"
	case can == all:
		return "each GPU reaches the memory of the others"
	}
	return fmt.Sprintf("%d of %d GPUs' ways to each other's memory are open", can, all)
}
