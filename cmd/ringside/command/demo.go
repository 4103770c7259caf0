package command

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/ringside-go/ringside/tensor/cluster"
	"github.com/ringside-go/ringside/tensor/data"
)

// demoGrace is how long a client may take to end in good order.
const demoGrace = 10 * time.Second

func newDemo() *cobra.Command {
	var (
		steps  int
		asJSON bool
		images string
		text   string
		on     string
	)
	c := &cobra.Command{
		Use:   "demo",
		Short: "train two models at once on a cluster of two workers",
		Long: `Demo starts a dispatcher and two workers, each a process, and trains an image classifier and a language model on
them at the same time, each from a client process of its own. It ends with what they learned. Where the data of one of them is
not installed, it trains the other.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			log := logger(cmd)
			if err := positive(cmd.Flags(), "steps"); err != nil {
				return err
			}
			where, err := parseDevices(on)
			if err != nil {
				return err
			}
			said := cmd.ErrOrStderr()
			models, left, err := demoModels(images, text, data.FindFashionMNIST, data.FindText)
			if err != nil {
				return err
			}
			for _, why := range left {
				fmt.Fprintf(said, "left out: %v\n", why)
			}
			me, err := thisProgram()
			if err != nil {
				return err
			}
			devices, err := where.forWorkers(cmd, len(models), len(models))
			if err != nil {
				return err
			}
			c, err := startCluster(cmd.Context(), &cluster.Options{
				Workers: len(models), Devices: devices, Threads: coresEach(len(models)), Restart: true, Stderr: cmd.ErrOrStderr(), Logger: log,
			})
			if err != nil {
				return err
			}
			defer c.Close()
			for _, p := range c.Parts() {
				fmt.Fprintf(said, "%s: process %d%s\n", p.Child, p.PID, onGPU(p.Device))
			}
			clients := make([]*demoClient, len(models))
			var wg sync.WaitGroup
			for i := range models {
				d := &models[i]
				clients[i] = d
				wg.Go(func() { d.err = d.train(cmd.Context(), me, c.Addr(), steps, said) })
			}
			wg.Wait()
			var errs []error
			for _, d := range clients {
				if d.err != nil {
					errs = append(errs, fmt.Errorf("%s: %w", d.model, d.err))
				}
				switch {
				case d.result.Summary == nil:
				case asJSON:
					err = json.NewEncoder(cmd.OutOrStdout()).Encode(&d.result)
				default:
					fmt.Fprintln(cmd.OutOrStdout())
					err = d.result.write(cmd.OutOrStdout())
				}
				errs = append(errs, err)
			}
			for _, why := range left { // the first time was long ago
				fmt.Fprintf(said, "left out: %v\n", why)
			}
			if err := errors.Join(errs...); err != nil || cmd.Context().Err() == nil {
				return err
			}
			return interrupted(cmd.Context(), "nothing was kept: ringside train --checkpoint DIR keeps a run that can go on")
		},
	}
	c.Flags().IntVar(&steps, "steps", 0, "optimizer steps of each (default: the models')")
	c.Flags().BoolVar(&asJSON, "json", false, "end with one JSON object a line, of each model")
	deviceFlag(c.Flags(), &on, "the workers compute")
	c.Flags().StringVar(&images, "images", "", "folder of images in IDX files (default: Fashion-MNIST)")
	c.Flags().StringVar(&text, "text", "", "file or folder of text (default: what comes with Go)")
	return c
}

// demoModels returns the models that are trained at once, and why others are left out.
// The data of a flag must be there; of the usual data one of the two is enough.
func demoModels(images, text string, findImages func(...string) (*data.ImageFiles, error), findText func(...string) (string, error)) (models []demoClient, left []error, err error) {
	for _, m := range []struct {
		name, flag, path string
		find             func() error
	}{
		{"fashion-mlp", "images", images, func() error { _, err := findImages(); return err }},
		{"qwen3-tiny", "text", text, func() error { _, err := findText(); return err }},
	} {
		if m.path != "" {
			if _, err := os.Stat(m.path); err != nil {
				return nil, nil, fmt.Errorf("--%s: %w", m.flag, err)
			}
		} else if err := m.find(); err != nil {
			left = append(left, fmt.Errorf("%s: %w; or name yours with --%s", m.name, err, m.flag))
			continue
		}
		models = append(models, demoClient{model: m.name, path: m.path})
	}
	if len(models) == 0 {
		return nil, nil, errors.Join(left...)
	}
	return models, left, nil
}

// demoClient is a process that trains one model.
type demoClient struct {
	model, path string
	result      outcome
	err         error
}

func (d *demoClient) train(ctx context.Context, exe, addr string, steps int, said io.Writer) error {
	args := []string{"train", "--model", d.model, "--connect", addr, "--json"}
	if steps > 0 {
		args = append(args, "--steps", strconv.Itoa(steps))
	}
	if d.path != "" {
		args = append(args, "--data", d.path)
	}
	cmd := exec.CommandContext(ctx, exe, args...)
	// The child ends in good order on one interrupt. In a process group of its own it
	// does not get the terminal's interrupt as a second one.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = demoGrace
	var out bytes.Buffer
	cmd.Stdout = &out
	errs, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	last := copyLines(said, errs)
	err = cmd.Wait()
	if out.Len() > 0 {
		if e := json.Unmarshal(out.Bytes(), &d.result); e != nil && err == nil {
			err = fmt.Errorf("reading its summary: %w", e)
		}
	}
	interrupted := ctx.Err() != nil && cmd.ProcessState.ExitCode() == 128+int(syscall.SIGINT)
	switch {
	case d.result.Error != "" && !interrupted:
		return errors.New(d.result.Error)
	case ctx.Err() != nil && d.result.Summary != nil:
		return nil // it was stopped and said how far it came
	case ctx.Err() != nil:
		return ctx.Err() // before its first step
	case err != nil && last != "":
		return fmt.Errorf("%w: %s", err, last)
	}
	return err
}

// copyLines passes on the lines of r, each in one piece, and returns the last.
func copyLines(w io.Writer, r io.Reader) (last string) {
	for sc := bufio.NewScanner(r); sc.Scan(); {
		last = sc.Text()
		fmt.Fprintln(w, last)
	}
	return last
}
