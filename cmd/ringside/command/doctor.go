package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/local"
	"github.com/ringside-go/ringside/tensor/cuda/blas"
	"github.com/ringside-go/ringside/tensor/cuda/comm"
	"github.com/ringside-go/ringside/tensor/cuda/driver"
)

// verdict is what doctor thinks of one thing.
type verdict string

const (
	good verdict = "ok"
	poor verdict = "warn" // works, slower or with less
	bad  verdict = "fail" // something won't work
)

// finding is one line of doctor.
type finding struct {
	Name   string  `json:"name"`
	Status verdict `json:"status"`
	Found  string  `json:"found"`
	Do     string  `json:"do,omitempty"` // what to do about it
}

// found, warned and broken make findings, which examine names.
func found(format string, args ...any) finding {
	return finding{Status: good, Found: fmt.Sprintf(format, args...)}
}

func warned(do, format string, args ...any) finding {
	return finding{Status: poor, Found: fmt.Sprintf(format, args...), Do: do}
}

func broken(do, format string, args ...any) finding {
	return finding{Status: bad, Found: fmt.Sprintf(format, args...), Do: do}
}

func newDoctor() *cobra.Command {
	var (
		asJSON                bool
		addr                  string
		products, collectives string // libraries on a GPU
		far                   keys
	)
	c := &cobra.Command{
		Use:         "doctor",
		Annotations: map[string]string{withLittle: "yes"},
		Short:       "say what works on this machine and what to do about the rest",
		Long: `Doctor looks at shared memory, limits, cores, GPU drivers, data sets and a running dispatcher.
It changes nothing. The exit status is 1 if something fails; a warning is none.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			secret, tls, err := far.read()
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), 5*time.Second)
			defer cancel()
			h := thisHost()
			h.addr, h.secret, h.tls, h.products, h.collectives = addr, secret, tls, products, collectives
			all := examine(ctx, h)
			if asJSON {
				if err := json.NewEncoder(cmd.OutOrStdout()).Encode(all); err != nil {
					return err
				}
			} else if err := writeFindings(cmd.OutOrStdout(), all); err != nil {
				return err
			}
			for _, f := range all {
				if f.Status == bad {
					return errSilent
				}
			}
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON array of objects with name, status, found and do")
	c.Flags().StringVar(&addr, "connect", "", "address of the dispatcher to look for (default: this user's)")
	productsFlag(c.Flags(), &products)
	collectivesFlag(c.Flags(), &collectives)
	far.flags(c.Flags())
	return c
}

func writeFindings(w io.Writer, found []finding) error {
	var table strings.Builder
	tw := tabwriter.NewWriter(&table, 4, 0, 2, ' ', 0)
	for _, f := range found {
		// A cgroup may have any name.
		fmt.Fprintf(tw, "%s\t%s\t%s\n", f.Status, f.Name, cell(f.Found))
		if f.Do != "" {
			fmt.Fprintf(tw, "\t\t-> %s\n", cell(f.Do))
		}
	}
	return errors.Join(tw.Flush(), writeFitted(w, table.String()))
}

// host is the machine as doctor sees it; tests give it another root.
type host struct {
	root       string // of the file system
	runtimeDir string
	addr       string // of a dispatcher; empty: the one in runtimeDir
	secret     []byte // of a dispatcher that listens for other hosts
	tls        *ipc.TLS

	openDriver      func() (driver.API, error) // of CUDA
	openProducts    func(path string, cuda int) (blas.Library, error)
	openCollectives func(path string) (comm.Library, error)

	// Values of productsFlag and collectivesFlag.
	products, collectives string
}

// thisHost is the machine that this process runs on.
func thisHost() *host {
	return &host{root: "/", runtimeDir: local.Dir(), openDriver: openDriver, openProducts: openProducts, openCollectives: openCollectives}
}

// examine makes all findings, in the order they are printed.
func examine(ctx context.Context, h *host) []finding {
	checks := []struct {
		name  string
		check func(context.Context) finding
	}{
		{"shared memory", h.shm}, {"huge pages", h.hugePages}, {"memory", h.memory}, {"locked memory", h.lockedMemory},
		{"open files", h.openFiles}, {"cores", h.cores}, {"vector units", h.simd}, {"GPU driver", h.gpu},
		{"runtime folder", h.runtimeFolder}, {"dispatcher", h.dispatcher}, {"Fashion-MNIST", h.images}, {"text", h.text},
	}
	out := make([]finding, len(checks))
	for i, c := range checks {
		out[i] = c.check(ctx)
		out[i].Name = c.name
	}
	return out
}
