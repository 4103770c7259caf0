package command

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ringside-go/ringside/ipc/local"
	"github.com/ringside-go/ringside/net/nettest"
	"github.com/ringside-go/ringside/tensor/cluster"
)

const (
	// hostsPort is the dispatcher's port on the first of two hosts, which share their
	// network with no one.
	hostsPort = "7000"

	// hostsDir is private to each host. Sockets elsewhere in the file system would lead
	// from one host to the other.
	hostsDir = "/dev/shm"

	// hostsGrace is how long a program on one of them has to end after an interrupt.
	hostsGrace = 10 * time.Second
)

// onTwoHosts runs this command again on the first of two hosts, which it makes of network
// namespaces. Half of the workers run there; the other half run on the second host and
// join as workers of another machine do. The hosts end with the command.
func onTwoHosts(cmd *cobra.Command, at *place) error {
	c, err := at.config()
	if err != nil {
		return err
	}
	n := c.Workers()
	switch {
	case at.inProcess || at.connect != "" || at.device != "":
		return usagef("--hosts and --in-process, --connect, --device exclude each other")
	case at.hosts != 2 || n < 2 || n%2 != 0:
		return usagef("--hosts %d with %d workers: expected 2 hosts and --workers 2, 4 and so on, half of them for each", at.hosts, n)
	}
	ctx, cancel := context.WithCancel(cmd.Context())
	defer cancel()
	// An interrupt ends the work in good order first and the hosts afterwards.
	hosts, err := nettest.Pair(context.WithoutCancel(ctx))
	if errors.Is(err, nettest.ErrNotAllowed) {
		return fmt.Errorf("--hosts 2: %w: run it as root, or join workers of a real second host with ringside worker --join", err)
	}
	if err != nil {
		return err
	}
	for _, h := range hosts {
		defer h.Close()
	}
	dir, err := os.MkdirTemp("", "ringside-hosts")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	secret := filepath.Join(dir, "secret")
	if err := os.WriteFile(secret, []byte(rand.Text()), 0o600); err != nil {
		return err
	}
	t := &twoHosts{hosts: hosts, stderr: cmd.ErrOrStderr()}
	defer t.end()
	if t.exe, err = thisProgram(); err != nil {
		return err
	}
	near := local.DispatcherAddr(local.DirIn(hostsDir))
	far := hosts[0].Addr + ":" + hostsPort
	for _, p := range hostPrograms(n, far, append([]string{"--secret-file", secret}, cluster.TLSArgs(at.far.tls)...)) {
		if err := t.start(p.host, p.line, p.args...); err != nil {
			return err
		}
	}
	args := []string{cmd.Name(), "--connect", near, "--secret-file", secret}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if !slices.Contains([]string{"hosts", "connect", "secret-file"}, f.Name) {
			args = append(args, "--"+f.Name+"="+f.Value.String())
		}
	})
	again := t.command(ctx, 0, args...)
	again.Stdout, again.Stderr = cmd.OutOrStdout(), cmd.ErrOrStderr()
	err = again.Run()
	var exit *exec.ExitError
	switch ended := errors.As(err, &exit); {
	case ended && cmd.Context().Err() == nil:
		return fmt.Errorf("%s on host %s: %w", cmd.Name(), hosts[0].Name, err)
	case ended: // as the interrupt asked for
		err = nil
	}
	return errors.Join(cmd.Context().Err(), err)
}

// hostProgram is a program of one of two hosts that is ready when it has printed line.
type hostProgram struct {
	host int
	line string
	args []string
}

// hostPrograms returns a dispatcher at far and n workers. known are the flags of what
// they know about other hosts.
func hostPrograms(n int, far string, known []string) []hostProgram {
	all := []hostProgram{{0, "dispatcher at " + far, append([]string{"dispatcher", "--listen-tcp", far}, known...)}}
	for i := range n {
		args := []string{"worker", "--name", fmt.Sprintf("w%d", i), "--threads", strconv.Itoa(coresEach(n))}
		if i >= n/2 {
			args = append(args, "--join", far)
		}
		all = append(all, hostProgram{i * 2 / n, "worker w", append(args, known...)})
	}
	return all
}

// twoHosts are the programs that run on two hosts in the background.
type twoHosts struct {
	hosts   [2]*nettest.Host
	exe     string
	stderr  io.Writer
	cancels []func()
}

// command returns this program as a command on a host. It is interrupted when ctx is
// done, and keeps its sockets where no other host sees them.
func (t *twoHosts) command(ctx context.Context, host int, args ...string) *exec.Cmd {
	c := t.hosts[host].Command(ctx, "env", append([]string{"XDG_RUNTIME_DIR=" + hostsDir, t.exe}, args...)...)
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) }
	c.WaitDelay = hostsGrace
	return c
}

// start starts a program that goes on until end, and waits for a line that begins so.
func (t *twoHosts) start(host int, line string, args ...string) error {
	ctx, cancel := context.WithCancel(context.Background())
	c := t.command(ctx, host, args...)
	out, err := c.StdoutPipe()
	if err != nil {
		cancel()
		return err
	}
	c.Stderr = t.stderr
	if err := c.Start(); err != nil {
		cancel()
		return err
	}
	gone := make(chan struct{})
	said := make(chan bool, 1)
	go func() {
		defer close(gone)
		for sc := bufio.NewScanner(out); sc.Scan(); {
			if strings.HasPrefix(sc.Text(), line) {
				said <- true
			}
		}
		close(said)
		_ = c.Wait()
	}()
	t.cancels = append(t.cancels, func() {
		cancel()
		<-gone
	})
	if !<-said {
		return fmt.Errorf("%s on host %s ended before it said %q", args[0], t.hosts[host].Name, line)
	}
	return nil
}

// end ends them, the last one first.
func (t *twoHosts) end() {
	for _, cancel := range slices.Backward(t.cancels) {
		cancel()
	}
}
