package command

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/client"
	"github.com/ringside-go/ringside/ipc/cluster"
	"github.com/ringside-go/ringside/ipc/local"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cpu"
)

// place is where programs are to run.
type place struct {
	inProcess bool
	connect   string
	secret    string // the file
	workers   int
}

func (p *place) flags(f *pflag.FlagSet) {
	f.BoolVar(&p.inProcess, "in-process", false, "run in this process, without a cluster")
	f.StringVar(&p.connect, "connect", "", "address of the dispatcher, host:port on another host (default: this user's, if one runs)")
	secretFlag(f, &p.secret)
	f.IntVar(&p.workers, "workers", 0, "start a cluster of so many workers, whether or not a dispatcher runs")
}

// seat is a session at its place, and what to know about it.
type seat struct {
	*tensor.Session
	*Traffic // nil in this process
	client   *client.Engine
	cluster  *cluster.Cluster // nil unless it is our own
	addr     string
	secret   []byte
	device   *cpu.Device // nil through a cluster
}

// statusTimeout bounds a question to a dispatcher, which answers within microseconds.
const statusTimeout = 2 * time.Second

// open makes a session. It and a cluster of its own outlive ctx, so that an interrupt can end the work in good order.
func (p *place) open(ctx context.Context, cmd *cobra.Command) (*seat, error) {
	given := 0
	for _, b := range []bool{p.inProcess, p.connect != "", p.workers != 0} {
		if b {
			given++
		}
	}
	switch {
	case given > 1:
		return nil, usagef("--in-process, --connect and --workers exclude each other")
	case p.workers < 0:
		return nil, usagef("--workers %d: expected at least 1", p.workers)
	case p.inProcess:
		s, err := cpu.NewSession(nil, nil)
		if err != nil {
			return nil, err
		}
		return &seat{Session: s, device: cpu.DeviceOf(s.Engine())}, nil
	case p.connect != "":
		secret, err := readSecret(p.secret)
		if err != nil {
			return nil, err
		}
		return dial(ctx, &seat{addr: p.connect, secret: secret})
	case p.workers == 0:
		addr := local.DispatcherAddr(local.Dir())
		ask, cancel := context.WithTimeout(ctx, statusTimeout)
		_, err := client.Status(ask, nil, addr)
		cancel()
		if err == nil {
			return dial(ctx, &seat{addr: addr})
		}
		if !errors.Is(err, ipc.ErrNoListener) {
			return nil, fmt.Errorf("a dispatcher is there but does not answer: %w", err)
		}
	}
	log, err := logger(cmd)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil { // it came while data was loaded
		return nil, err
	}
	c, err := cluster.Start(context.WithoutCancel(ctx), &cluster.Options{Workers: max(p.workers, 1), Threads: coresEach(max(p.workers, 1)), Restart: true, Stderr: cmd.ErrOrStderr(), Logger: log})
	if err != nil {
		return nil, err
	}
	s, err := dial(ctx, &seat{addr: c.Addr(), cluster: c})
	if err != nil {
		c.Close()
	}
	return s, err
}

func dial(ctx context.Context, s *seat) (*seat, error) {
	e, err := client.Dial(ctx, s.addr, &client.Options{Secret: s.secret})
	if errors.Is(err, ipc.ErrNoListener) {
		return nil, fmt.Errorf("%w; start one with ringside up --listen %s", err, s.addr)
	}
	if err != nil {
		return nil, err
	}
	s.client, s.Traffic = e, &Traffic{}
	s.Session = tensor.NewSession(e, nil)
	return s, nil
}

func (s *seat) close() {
	s.Session.Close()
	if s.cluster != nil {
		s.cluster.Close()
	}
}

// over is why our own cluster ended, if it did.
func (s *seat) over() error {
	if s.cluster == nil {
		return nil
	}
	select {
	case <-s.cluster.Done():
		return s.cluster.Wait()
	default:
		return nil
	}
}

// Traffic is what went over the wire. What is per step is of the steady state: all steps but the first.
type Traffic struct {
	MessagesPerStep   *float64 `json:"messages_per_step,omitempty"`    // from the client
	BytesPerStep      *float64 `json:"bytes_per_step,omitempty"`       // of these; the batch lies in shared memory
	InputBytesPerStep *float64 `json:"input_bytes_per_step,omitempty"` // of the batch
	RoundTripsPerStep *float64 `json:"round_trips_per_step,omitempty"` // how often the client waited
	ProgramBodies     uint64   `json:"program_bodies_sent"`            // until the last step
	TensorBytes       uint64   `json:"dispatcher_tensor_bytes"`        // that went through the dispatcher, whose every client counts

	first client.Stats
}

// started is called after the first step.
func (s *seat) started() {
	if s.client != nil {
		s.first = s.client.Stats()
	}
}

// trained is called after the last of n steps.
func (s *seat) trained(n int) {
	if s.client == nil {
		return
	}
	now := s.client.Stats()
	s.ProgramBodies = now.Bodies
	if n > 1 {
		per := func(now, first uint64) *float64 {
			x := float64(now-first) / float64(n-1)
			return &x
		}
		s.MessagesPerStep = per(now.Messages, s.first.Messages)
		s.BytesPerStep = per(now.Bytes, s.first.Bytes)
		s.InputBytesPerStep = per(now.UploadBytes, s.first.UploadBytes)
		s.RoundTripsPerStep = per(now.RoundTrips, s.first.RoundTrips)
	}
	ctx, cancel := context.WithTimeout(context.Background(), statusTimeout)
	defer cancel()
	if st, err := client.Status(ctx, &client.Options{Secret: s.secret}, s.addr); err == nil {
		s.TensorBytes = st.Get("tensor_bytes")
	}
}

// plans adds the plan cache of the engine in this process.
func (s *seat) plans(o *outcome) {
	if s.device != nil {
		st := s.device.Stats()
		o.PlanCacheHits, o.PlanCacheMisses = &st.Hits, &st.Misses
	}
}
