package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ringside-go/ringside/cmd/ringside/page"
	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/shm/plain"
	"github.com/ringside-go/ringside/tensor/cluster/client"
	"github.com/ringside-go/ringside/tensor/cluster/metrics"
	"github.com/ringside-go/ringside/tensor/cluster/trace"
)

// livePage is a page about a cluster or a run, while that is there.
type livePage struct {
	addr  string
	pprof bool
	file  string // with the token; empty for one that is made

	token  string       // of file, once check has read it
	place  *page.Place  // nil before listen, and once begin serves there
	server *page.Server // nil before begin
	asks   sampler
}

func (p *livePage) flags(f *pflag.FlagSet) {
	f.StringVar(&p.addr, "http", "", "host:port of a live page, figures for Prometheus at /metrics too, such as 127.0.0.1:0 for any port; the URL that is printed has a token")
	f.StringVar(&p.file, "http-token", "", "with --http, file with the token of all runs, 16 bytes or more, readable by you alone (default: a new one, in the URL)")
	f.BoolVar(&p.pprof, "pprof", false, "with --http, profiles of this process at /debug/pprof/")
}

// check refuses flags that have no effect and reads the token, before anything is
// started.
func (p *livePage) check() error {
	if p.pprof && p.addr == "" {
		return usagef("--pprof needs --http ADDR, where the page is, such as --http 127.0.0.1:0")
	}
	if p.file != "" && p.addr == "" {
		return usagef("--http-token %s needs --http ADDR, where the page is, such as --http 127.0.0.1:9090", plain.Name(p.file))
	}
	if p.addr == "" {
		return nil
	}
	if _, err := page.Check(p.addr); err != nil {
		return usagef("--http %s: %v", p.addr, err)
	}
	if p.file == "" {
		return nil
	}
	token, err := ipc.ReadSecret(p.file)
	if err != nil {
		return fmt.Errorf("--http-token: %w", plain.Path(err))
	}
	if err := page.CheckToken(token); err != nil {
		return fmt.Errorf("--http-token %s: %w", plain.Name(p.file), err)
	}
	p.token = string(token)
	return nil
}

// listen takes the address, so that one in use is told before anything is started. end
// gives it back.
func (p *livePage) listen() (err error) {
	if p.addr == "" {
		return nil
	}
	p.place, err = page.Listen(p.addr)
	switch {
	case errors.Is(err, page.ErrAddr):
		return usagef("--http %s: %v", p.addr, err)
	case err != nil:
		return fmt.Errorf("--http %s: %w", p.addr, err)
	}
	return nil
}

// begin serves the page of the dispatcher at addr, empty for none, if one is wanted:
// where listen has taken the address. It says where on said.
func (p *livePage) begin(cmd *cobra.Command, said io.Writer, title string, o *client.Options, addr string, runs func() []metrics.Training) error {
	if p.place == nil {
		return nil
	}
	about := page.Options{Title: title, Trainings: runs, Pprof: p.pprof, Token: p.token}
	if addr != "" {
		p.asks = sampler{o: o, addr: addr}
		about.Sample, about.LastStep = p.asks.sample, p.asks.lastStep
	}
	p.server, p.place = p.place.Serve(&about), nil
	if p.file != "" && ipc.WeakSecret([]byte(p.token)) {
		logger(cmd).Warn("the token can be guessed by strangers; make a random one: head -c 32 /dev/urandom | base64", "http-token", p.file)
	}
	if !p.server.Loopback() {
		logger(cmd).Warn("other hosts reach the page, and what goes to them is not encrypted, the token neither", "http", p.addr)
	}
	at := p.server.URL()
	if p.file != "" {
		at += " with the token of " + plain.Name(p.file)
	}
	_, err := fmt.Fprintln(said, "page at", at)
	return err
}

// end ends the page.
func (p *livePage) end() {
	if p.place != nil {
		_ = p.place.Close()
		p.place = nil
	}
	if p.server == nil {
		return
	}
	_ = p.server.Close()
	p.asks.close()
	p.server = nil
}

// sampler asks a dispatcher that may be started again.
type sampler struct {
	o    *client.Options
	addr string
	m    *client.Monitor // nil before the first question and after an error
}

// sample is that of page.Options.
func (s *sampler) sample(ctx context.Context, last *metrics.Sample, wait time.Duration) (*metrics.Sample, error) {
	if s.m == nil {
		m, err := client.NewMonitor(ctx, s.o, s.addr)
		if err != nil {
			return nil, err
		}
		s.m = m
	}
	now, err := sampleNow(ctx, s.m, last, wait)
	if err != nil {
		s.close()
	}
	return now, err
}

func (s *sampler) close() {
	if s.m != nil {
		_ = s.m.Close()
		s.m = nil
	}
}

const (
	// recorded is how long workers keep events for a timeline.
	recorded = 500 * time.Millisecond
	// maxRecorded is how long at most, where steps take longer.
	maxRecorded = 8 * recorded
)

// lastStep is that of page.Options.
func (s *sampler) lastStep(ctx context.Context) (*trace.Step, error) {
	m, err := client.NewMonitor(ctx, s.o, s.addr)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	return untilStep(func(long time.Duration) (*trace.Step, error) { return trace.Record(ctx, m, long) })
}

// untilStep records again, for twice as long each time, where no step ended.
func untilStep(record func(long time.Duration) (*trace.Step, error)) (*trace.Step, error) {
	for long := recorded; ; long *= 2 {
		step, err := record(long)
		if !errors.Is(err, trace.ErrNoStep) || long >= maxRecorded {
			return step, err
		}
	}
}
