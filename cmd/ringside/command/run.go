package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ringside-go/ringside/collective/launch"
	"github.com/ringside-go/ringside/collective/rendezvous"
	"github.com/ringside-go/ringside/ipc"
)

func newRun() *cobra.Command {
	var (
		o      launch.Options
		tls    ipc.TLSFiles
		hosts  string
		rsh    string
		asJSON bool
		events rankTrace
	)
	c := &cobra.Command{
		Use:   "run [flags] [--] program [arguments]",
		Short: "start the ranks of a program",
		Long: `Run starts n processes of a program, each of which finds in its environment which rank it is (in torchrun's names: RANK,
WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, ...), and waits for them. collective.Init does the rest.

When one fails, all others are ended, by SIGTERM and later SIGKILL, and run's exit status is that of the rank whose failure
began it; with --restarts they are all started again. An interrupt ends them too, a later second one at once. Ranks have no standard
input. What ranks of this host write last about the failure of their group is told once, in run's error.

With --trace the calls of all ranks, on all hosts, go to one file, a timeline that trace view and https://ui.perfetto.dev read.

With --hosts the ranks run on other hosts, by ssh: the program must be there under the same path, as must the
working directory, and ssh must need no password. Put "localhost" for this host.

  ringside run -n 4 -- ./train --epochs 3
  ringside run --hosts node1:2,node2:2 --env GOMAXPROCS=8 -- /opt/train`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("no program: expected ringside run -n 4 -- ./program")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			log := logger(cmd)
			if err := checkRun(cmd.Flags(), o); err != nil {
				return err
			}
			var err error
			if hosts != "" {
				if o.Hosts, err = launch.ParseHosts(hosts); err != nil {
					return usagef("--hosts: %v", err)
				}
			} else if o.Ranks == 0 {
				return usagef("how many ranks? expected -n or --hosts")
			}
			if o.RemoteShell = strings.Fields(rsh); len(o.RemoteShell) == 0 {
				return usagef("--rsh is empty, expected a command")
			}
			if _, err := tls.Read(); err != nil && hosts == "" {
				return fmt.Errorf("--tls-cert, --tls-key, --tls-ca: %w", err)
			}
			o.Env = append(tlsVariables(tls), o.Env...)
			o.Program, o.Environ, o.Logger = args, os.Environ(), log
			o.Stdout, o.Stderr = cmd.OutOrStdout(), cmd.ErrOrStderr()
			if asJSON {
				o.Stdout = o.Stderr
			}
			if err := events.begin(&o); err != nil {
				return err
			}
			sum, err := launch.Run(cmd.Context(), o)
			if errTrace := events.end(o.Stderr, sum); err == nil {
				err = errTrace
			} else if errTrace != nil {
				log.Warn("no trace", "error", errTrace)
			}
			if errors.Is(err, launch.ErrOption) {
				return usagef("%v", err)
			}
			if asJSON && sum != nil {
				if err := json.NewEncoder(cmd.OutOrStdout()).Encode(sum); err != nil {
					return err
				}
			}
			if failed := new(launch.RankError); errors.As(err, &failed) {
				return &exitError{err, failed.Code}
			}
			return err
		},
	}
	f := c.Flags()
	f.SetInterspersed(false) // what follows the program is the program's
	f.IntVarP(&o.Ranks, "ranks", "n", 0, "number of ranks (default: as many as --hosts has room for)")
	f.StringVar(&hosts, "hosts", "", "hosts and the number of ranks on each, as in a:2,b:2")
	f.StringVar(&rsh, "rsh", "ssh -o BatchMode=yes", "remote shell: a command that gets a host and a command line")
	f.IntVar(&o.Restarts, "restarts", 0, "how often all ranks are started again after one failed")
	f.BoolVar(&o.Prefix, "prefix", true, `put "[rank] " before every line of output`)
	f.StringArrayVar(&o.Env, "env", nil, "variable NAME=value for every rank; may be given several times")
	f.StringVar(&o.MasterAddr, "master-addr", "", "where rank 0 listens (default: the first host)")
	f.IntVar(&o.MasterPort, "master-port", 0, "port on which rank 0 listens (default: a free one)")
	f.DurationVar(&o.Grace, "grace", launch.DefaultGrace, "how long ranks have to end after SIGTERM")
	tlsFlags(f, &tls)
	events.flags(f)
	f.BoolVar(&asJSON, "json", false, "print a summary as JSON; what the ranks print goes to standard error")
	return c
}

// tlsVariables returns the variables in which ranks find t.
func tlsVariables(t ipc.TLSFiles) (vars []string) {
	if t.On {
		vars = append(vars, "RINGSIDE_TLS=1")
	}
	for name, file := range map[string]string{"RINGSIDE_TLS_CERT": t.Cert, "RINGSIDE_TLS_KEY": t.Key, "RINGSIDE_TLS_CA": t.CA} {
		if file != "" {
			vars = append(vars, name+"="+file)
		}
	}
	return vars
}

// checkRun refuses numbers out of range by the names that were typed.
func checkRun(set *pflag.FlagSet, o launch.Options) error {
	for _, f := range []struct {
		name       string
		value      int
		least, top int
	}{
		{"ranks", o.Ranks, 1, rendezvous.MaxSize},
		{"restarts", o.Restarts, 0, math.MaxInt32},
		{"master-port", o.MasterPort, 1, math.MaxUint16},
	} {
		if set.Changed(f.name) && (f.value < f.least || f.value > f.top) {
			return usagef("--%s %d: expected %d to %d", f.name, f.value, f.least, f.top)
		}
	}
	if o.Grace <= 0 {
		return usagef("--grace %v: expected above 0", o.Grace)
	}
	return nil
}
