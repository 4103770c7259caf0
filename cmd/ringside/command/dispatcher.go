package command

import (
	"errors"
	"fmt"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/ringside-go/ringside/collective"
	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/local"
	"github.com/ringside-go/ringside/net/tcp"
	"github.com/ringside-go/ringside/tensor/cluster"
	"github.com/ringside-go/ringside/tensor/cluster/dispatcher"
)

// listenAddr returns the place of --listen, by default that of this user's dispatcher,
// whose folder it makes. A place that depends on where a process was started is refused,
// and so is a far one, of --listen-tcp, that is no address or, unless anyPort is true,
// leaves the port open.
func listenAddr(addr, far string, anyPort bool) (string, error) {
	dir := local.Dir()
	switch {
	case addr != "" && !filepath.IsAbs(addr):
		return "", usagef("--listen %s: expected an absolute path", addr)
	case addr == "":
		if err := local.PrepareDir(dir); err != nil {
			return "", err
		}
		addr = local.DispatcherAddr(dir)
	}
	if far != "" {
		return addr, hostPort("listen-tcp", far, anyPort)
	}
	return addr, nil
}

// listenElsewhere adds to an error about the folder of sockets which flag names another.
func listenElsewhere(cmd *cobra.Command, err error) error {
	if f := cmd.Flags().Lookup("listen"); f == nil || !errors.Is(err, local.ErrUnsafeDir) && !errors.Is(err, local.ErrNoDir) {
		return err
	}
	return fmt.Errorf("%w (--listen FILE, the absolute path of a socket in it)", err)
}

func newDispatcher() *cobra.Command {
	var (
		addr, far string
		known     keys
		gid       int
		flight    string
	)
	c := &cobra.Command{
		Use:   "dispatcher",
		Short: "run a dispatcher, which places clients' sessions on workers",
		Long: `Dispatcher accepts clients and workers of this host at one address until it is interrupted, and with --listen-tcp
those of other hosts that know the secret. ` + "`ringside up`" + ` starts one together with workers.

Nothing is encrypted between hosts without --tls, which all of them need where strangers can listen or write.`,
		Args: noArgs,
		RunE: serving(func(cmd *cobra.Command, _ []string) error {
			log := logger(cmd)
			if gid < 0 {
				return usagef("--allow-gid %d: expected at least 0", gid)
			}
			at, err := listenAddr(addr, far, true)
			if err != nil {
				return err
			}
			if addr == "" {
				cluster.Sweep(filepath.Dir(at), log)
			}
			secret, tls, err := known.read()
			if err != nil {
				return err
			}
			d, err := dispatcher.New(&dispatcher.Options{AllowGID: gid, Flight: collective.FlightFolder(flight), Logger: log, Secret: secret, TLS: tls})
			if err != nil {
				return err
			}
			l, err := local.New().Listen(at, d.ListenOptions())
			if err != nil {
				return err
			}
			listeners := []ipc.Listener{l}
			if far != "" {
				if len(secret) > 0 && ipc.WeakSecret(secret) {
					log.Warn("the secret can be guessed by strangers; make a random one: head -c 32 /dev/urandom | base64", "secret-file", known.file)
				}
				l, err := tcp.New().Listen(far, d.ListenOptions())
				if err != nil {
					listeners[0].Close()
					return err
				}
				if len(secret) == 0 {
					log.Warn("without --secret-file every user of this host may connect", "listen-tcp", far)
				}
				listeners = append(listeners, l)
			}
			// The reader of the log may die first. Writing to it must not end the
			// dispatcher, which has a socket to remove.
			signal.Ignore(syscall.SIGPIPE)
			for _, l := range listeners {
				fmt.Fprintf(cmd.OutOrStdout(), "dispatcher at %s\n", l.Addr())
			}
			ready(cmd)
			return d.Serve(cmd.Context(), listeners...)
		}),
	}
	c.Flags().StringVar(&addr, "listen", "", "absolute path of the socket (default: this user's)")
	c.Flags().StringVar(&far, "listen-tcp", "", "host:port at which clients and workers of other hosts connect (default: none)")
	known.flags(c.Flags())
	flightFlag(c.Flags(), &flight, "the last events before a worker died or did not answer")
	c.Flags().IntVar(&gid, "allow-gid", 0, "also accept processes of other users with this primary group")
	return c
}
