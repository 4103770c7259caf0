package command

import (
	"fmt"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/local"
	"github.com/ringside-go/ringside/net/tcp"
	"github.com/ringside-go/ringside/tensor/cluster"
	"github.com/ringside-go/ringside/tensor/cluster/dispatcher"
)

// ownAddr is where this user's dispatcher is, whose folder it makes.
func ownAddr() (string, error) {
	dir := local.Dir()
	if err := local.PrepareDir(dir); err != nil {
		return "", err
	}
	return local.DispatcherAddr(dir), nil
}

// absolute refuses a place that depends on where a process was started.
func absolute(addr string) error {
	if !filepath.IsAbs(addr) {
		return usagef("--listen %s: expected an absolute path", addr)
	}
	return nil
}

func newDispatcher() *cobra.Command {
	var (
		addr, far, secretFile string
		gid                   int
	)
	c := &cobra.Command{
		Use:   "dispatcher",
		Short: "run a dispatcher: it places clients' sessions on workers and forwards",
		Long: `Dispatcher accepts clients and workers of this host at one address until it is interrupted, and with --listen-tcp
those of other hosts that know the secret. ` + "`ringside up`" + ` starts one together with workers.

Nothing is encrypted between hosts: where strangers can listen or write, put a tunnel (WireGuard, ssh) under it.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			log, err := logger(cmd)
			if err != nil {
				return err
			}
			if gid < 0 {
				return usagef("--allow-gid %d: expected at least 0", gid)
			}
			if addr == "" {
				if addr, err = ownAddr(); err != nil {
					return err
				}
				cluster.Sweep(filepath.Dir(addr), log)
			}
			if err := absolute(addr); err != nil {
				return err
			}
			if far != "" {
				if err := hostPort("listen-tcp", far, true); err != nil {
					return err
				}
			}
			secret, err := readSecret(secretFile)
			if err != nil {
				return err
			}
			d, err := dispatcher.New(&dispatcher.Options{AllowGID: gid, Logger: log, Secret: secret})
			if err != nil {
				return err
			}
			l, err := local.New().Listen(addr, d.ListenOptions())
			if err != nil {
				return err
			}
			listeners := []ipc.Listener{l}
			if far != "" {
				l, err := tcp.New().Listen(far, d.ListenOptions())
				if err != nil {
					listeners[0].Close()
					return err
				}
				listeners = append(listeners, l)
			}
			// The reader of the log may die first. Writing to it must not end the
			// dispatcher, which has a socket to remove.
			signal.Ignore(syscall.SIGPIPE)
			for _, l := range listeners {
				fmt.Fprintf(cmd.OutOrStdout(), "dispatcher at %s\n", l.Addr())
			}
			return d.Serve(cmd.Context(), listeners...)
		},
	}
	c.Flags().StringVar(&addr, "listen", "", "absolute path of the socket (default: this user's)")
	c.Flags().StringVar(&far, "listen-tcp", "", "host:port at which clients and workers of other hosts connect (default: none)")
	secretFlag(c.Flags(), &secretFile)
	c.Flags().IntVar(&gid, "allow-gid", 0, "also accept processes of other users with this primary group")
	return c
}
