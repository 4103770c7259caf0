package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ringside-go/ringside/collective"
	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/local"
	"github.com/ringside-go/ringside/net/route"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster"
	"github.com/ringside-go/ringside/tensor/cluster/client"
	"github.com/ringside-go/ringside/tensor/cluster/metrics"
	"github.com/ringside-go/ringside/tensor/cluster/trace"
	"github.com/ringside-go/ringside/tensor/cpu"
	"github.com/ringside-go/ringside/tensor/device"
	"github.com/ringside-go/ringside/tensor/shard"
	"github.com/ringside-go/ringside/tensor/shard/config"
	"github.com/ringside-go/ringside/tensor/train"
)

// place is where programs are to run.
type place struct {
	inProcess bool
	orHere    bool // in this process if no dispatcher runs
	connect   string
	flight    string
	far       keys
	workers   int
	mesh      string
	auto      bool
	zero1     bool
	exact     int
	file      string // a config of workers and signals
	hosts     int    // 2: of two that this machine plays
	device    string // of the workers of a cluster of its own, see deviceFlag

	collectives string // of these workers, see collectivesFlag

	// For models that are trained in parts.
	stages int
	micro  int            // micro-batches, 0: as many as stages deserve
	staged *config.Config // for stages, of the model's parts

	rec recording
}

// whereFlags are those of programs that one worker runs.
func (p *place) whereFlags(f *pflag.FlagSet) {
	f.BoolVar(&p.inProcess, "in-process", false, "run in this process, without a cluster")
	f.StringVar(&p.connect, "connect", "", "address of the dispatcher, host:port on another host (default: this user's, if one runs)")
	p.far.flags(f)
	flightFlag(f, &p.flight, "the last batches of a session that is lost, and what its own cluster writes down")
}

func (p *place) flags(f *pflag.FlagSet) {
	p.whereFlags(f)
	f.IntVar(&p.workers, "workers", 0, "have so many workers do it together, each a part of every batch: of a cluster of its own, or with --connect of that one")
	f.StringVar(&p.mesh, "mesh", "", "how the workers are arranged, as 2x2: batches are cut along the first dim, large matrices with --auto-shard along the last")
	f.BoolVar(&p.auto, "auto-shard", false, "choose how tensors lie of which nothing else is said")
	f.BoolVar(&p.zero1, "zero1", false, "cut the optimizer's state along the first dim of the mesh")
	f.IntVar(&p.exact, "exact", 0, "cut every batch in so many parts, whose gradients are added in a fixed order: the weights have the same bits on any number of workers that divides it")
	f.IntVar(&p.hosts, "hosts", 1, "2: have the workers on two hosts, half of them on each, played by network namespaces of this one; as root")
	deviceFlag(f, &p.device, "the workers of a cluster of its own compute")
	collectivesFlag(f, &p.collectives)
	f.StringVar(&p.file, "config", "", "YAML file that says how many workers there are and how tensors lie on them (docs/sharding.md)")
}

// config is how the session's tensors lie.
func (p *place) config() (*config.Config, error) {
	if p.staged != nil {
		return p.staged, nil
	}
	if p.file != "" {
		return p.fromFile()
	}
	n := max(p.workers, 1)
	var mesh shard.Mesh
	if p.mesh != "" {
		var err error
		if mesh, err = shard.ParseMesh(p.mesh); err != nil {
			return nil, usagef("--mesh %s: %v", p.mesh, err)
		}
		if p.workers != 0 && p.workers != mesh.Size() {
			return nil, usagef("--mesh %s is of %d workers, --workers is %d", p.mesh, mesh.Size(), p.workers)
		}
		n = mesh.Size()
	}
	if n == 1 && p.exact == 0 && (p.auto || p.zero1) {
		return nil, usagef("--auto-shard and --zero1 are about several workers: say how many with --workers or --mesh")
	}
	c := config.DataParallel(n)
	c.Mesh, c.AutoShard, c.ZeRO1, c.Exact = mesh, p.auto, p.zero1, p.exact
	if p.exact > 0 {
		switch {
		case p.auto || len(mesh) > 1:
			return nil, usagef("--exact %d keeps matrices whole, which --auto-shard and a --mesh of two dims do not: say --workers", p.exact)
		case p.exact%n != 0:
			return nil, usagef("--exact %d with %d workers: expected a multiple of %d, or workers that divide %d", p.exact, n, n, p.exact)
		}
		if err := c.Check(); err != nil {
			return nil, usagef("--exact %d: %v", p.exact, err)
		}
	}
	return c, nil
}

// fromFile is the config of the file.
func (p *place) fromFile() (*config.Config, error) {
	if p.workers != 0 || p.mesh != "" || p.auto || p.zero1 || p.exact != 0 {
		return nil, usagef("--config and --workers, --mesh, --auto-shard, --zero1, --exact exclude each other: the file says these")
	}
	return readConfig(p.file)
}

// stageFlags are those of commands that train a model.
func (p *place) stageFlags(f *pflag.FlagSet) {
	f.IntVar(&p.stages, "stages", 0, "put the model's layers on so many stages, a pipeline of as many workers, or of those of --workers, as many each")
	f.IntVar(&p.micro, "micro-batches", 0, "cut a batch into so many, which stages work on at the same time (default with --stages: up to two a stage)")
}

// cutInStages makes the config for --stages, for a model trained in batches of the given
// size.
func (p *place) cutInStages(m *train.Model, batch int) error {
	switch {
	case p.exact > 0 && p.stages > 0:
		return usagef("--exact and --stages exclude each other: parts of a batch are whole on a worker; say --workers without --stages")
	case p.exact > 0 && p.micro > 0:
		return usagef("--exact and --micro-batches exclude each other: --accumulate takes several batches a step")
	}
	if p.stages == 0 {
		if p.micro != 0 && p.file != "" {
			return usagef("--config and --micro-batches exclude each other: the file says micro_batches")
		}
		return nil
	}
	if p.file != "" || p.mesh != "" || p.auto || p.inProcess {
		return usagef("--stages and --config, --mesh, --auto-shard, --in-process exclude each other: a file says which workers have what")
	}
	n := p.workers
	n = cmp.Or(n, p.stages)
	if n%p.stages != 0 {
		return usagef("--workers %d: expected a multiple of --stages %d, whose workers are as many each", n, p.stages)
	}
	if n == p.stages && p.zero1 {
		return usagef("--zero1 cuts the optimizer's state among the workers of a stage, and a stage has one: say --workers %d or more", 2*n)
	}
	c, err := m.StageConfig(p.stages, n/p.stages)
	if err != nil {
		return err
	}
	c.ZeRO1, c.MicroBatches = p.zero1, p.micro
	batch = cmp.Or(batch, m.Defaults.Batch)
	for k := 1; p.micro == 0 && k <= min(batch, 2*p.stages); k++ {
		if batch%k == 0 {
			c.MicroBatches = k
		}
	}
	p.staged = c
	return nil
}

// seat is a session at its place, and what to know about it.
type seat struct {
	*tensor.Session
	*Traffic                // nil in this process
	layout   *config.Config // nil in this process
	client   *client.Engine
	cluster  *cluster.Cluster // nil unless it is our own
	addr     string
	secret   []byte
	tls      *ipc.TLS
	device   device.Device // nil through a cluster
	rec      *recording
	flight   string
	patience time.Duration // for workers that come again; 0: reopenTimeout
}

// reopenTimeout is longer than a worker that dies again and again waits for its next
// start. A dispatcher says after two seconds that it has no worker.
const reopenTimeout = 20 * time.Second

// reopenEvery is the pause between two attempts.
const reopenEvery = 20 * time.Millisecond

// statusTimeout bounds a question to a dispatcher, which answers within microseconds.
const statusTimeout = 2 * time.Second

// status asks the dispatcher at addr for its counters.
func status(ctx context.Context, o *client.Options, addr string) (client.Counters, error) {
	ask, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	return client.Status(ask, o, addr)
}

// open makes a session. The session and a cluster of its own outlive ctx, so that an
// interrupt can end the work in good order.
func (p *place) open(ctx context.Context, cmd *cobra.Command) (*seat, error) {
	elsewhere := p.connect != "" || p.workers != 0 || p.mesh != "" || p.auto || p.zero1 || p.exact != 0 || p.file != "" || p.staged != nil || p.device != ""
	where, err := parseDevices(p.device)
	if err != nil {
		return nil, err
	}
	args, err := where.workerArgs(p.collectives)
	if err != nil {
		return nil, err
	}
	layout, err := p.config()
	switch {
	case err != nil:
		return nil, err
	case p.inProcess && p.exact > 0:
		return nil, usagef("--exact and --in-process exclude each other: say --workers 1, which has the same bits as several")
	case p.inProcess && elsewhere && p.orHere:
		return nil, usagef("--in-process and --connect exclude each other")
	case p.inProcess && elsewhere:
		return nil, usagef("--in-process and --connect, --workers, --mesh, --auto-shard, --zero1, --config, --device exclude each other")
	case p.connect != "" && p.device != "":
		return nil, usagef("--connect and --device exclude each other: the workers of that cluster are there already")
	case p.workers > shard.MaxRanks:
		return nil, usagef("--workers %d: expected 1 to %d", p.workers, shard.MaxRanks)
	case p.inProcess && p.rec.wanted():
		return nil, usagef("--trace and --log are about a cluster, and --in-process has none: say --workers 1 instead")
	case p.inProcess:
		return here()
	case p.connect != "":
		secret, tls, err := p.far.read()
		if err != nil {
			return nil, err
		}
		return dial(ctx, &seat{addr: p.connect, secret: secret, tls: tls, rec: &p.rec, flight: p.flight}, layout)
	case layout.Workers() == 1 && p.workers == 0 && p.staged == nil && p.device == "":
		addr := local.DispatcherAddr(local.Dir())
		_, err := status(ctx, nil, addr)
		if err == nil {
			return dial(ctx, &seat{addr: addr, rec: &p.rec, flight: p.flight}, layout)
		}
		if !errors.Is(err, ipc.ErrNoListener) {
			return nil, fmt.Errorf("a dispatcher is there but does not answer: %w", err)
		}
		if p.orHere {
			return here()
		}
	}
	log := logger(cmd)
	if err := ctx.Err(); err != nil { // it came while data was loaded
		return nil, err
	}
	n := layout.Workers()
	devices, err := where.forWorkers(cmd, n, n)
	if err != nil {
		return nil, err
	}
	c, err := startCluster(ctx, &cluster.Options{Workers: n, Devices: devices, Args: args, Threads: coresEach(n), Flight: p.flight, Restart: true, Stderr: cmd.ErrOrStderr(), Logger: log})
	if err != nil {
		return nil, err
	}
	s, err := dial(ctx, &seat{addr: c.Addr(), cluster: c, rec: &p.rec, flight: p.flight}, layout)
	if err != nil {
		c.Close()
	}
	return s, err
}

// startCluster starts a cluster that outlives the end of ctx, so that traces and
// checkpoints have theirs; while it starts, the end of ctx ends it.
func startCluster(ctx context.Context, o *cluster.Options) (*cluster.Cluster, error) {
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	started := context.AfterFunc(ctx, cancel)
	c, err := cluster.Start(life, o)
	started()
	return c, err
}

// here makes a session in this process.
func here() (*seat, error) {
	s, err := cpu.NewSession(nil, nil)
	if err != nil {
		return nil, err
	}
	return &seat{Session: s, device: device.Of(s.Engine())}, nil
}

// reopen makes another session in place of one whose worker or dispatcher is gone, when
// they are there again. It waits for those of our own cluster and of one that starts them
// again.
func (s *seat) reopen(ctx context.Context) error {
	s.Session.Close()
	for limit := time.Now().Add(cmp.Or(s.patience, reopenTimeout)); ; {
		_, err := dial(ctx, s, s.layout)
		between := errors.Is(err, client.ErrNoWorker) || errors.Is(err, ipc.ErrNoListener) || errors.Is(err, ipc.ErrPeerGone)
		if !between || ctx.Err() != nil || s.over() != nil || time.Now().After(limit) {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(reopenEvery):
		}
	}
}

// couldHave returns the greatest number of workers of the dispatcher that can have equal
// parts of a batch, or of the parts that Exact cuts it in; 0 if the dispatcher does not
// answer. It counts workers that a session can't have, such as silent ones.
func (s *seat) couldHave(ctx context.Context, batch int) int {
	if s.layout.Exact > 0 {
		batch = s.layout.Exact
	}
	st, err := status(ctx, &client.Options{Secret: s.secret, TLS: s.tls}, s.addr)
	if err != nil {
		return 0 // a session that goes on needs no dispatcher
	}
	n := min(int(st.Get(metrics.Workers)), batch, shard.MaxRanks)
	for n > 0 && batch%n != 0 {
		n--
	}
	return n
}

// resize makes another session with so many workers for data parallelism, or with those
// that it had if these can't be had at once.
func (s *seat) resize(ctx context.Context, workers int) error {
	layout := config.DataParallel(workers)
	layout.Exact = s.layout.Exact
	s.Session.Close()
	if _, err := dial(ctx, s, layout); err == nil || ctx.Err() != nil {
		return err
	}
	return s.reopen(ctx)
}

func dial(ctx context.Context, s *seat, layout *config.Config) (*seat, error) {
	o := client.Options{Secret: s.secret, TLS: s.tls, Config: layout, Flight: collective.FlightFolder(s.flight)}
	if s.rec != nil && s.rec.wanted() {
		if s.rec.Recorder == nil {
			m, err := client.NewMonitor(ctx, &o, s.addr)
			if err != nil {
				return nil, advised(err, s.addr)
			}
			if err := s.rec.begin(ctx, m); err != nil {
				return nil, err
			}
		}
		o.Name, o.Trace = fmt.Sprintf("ringside %d", os.Getpid()), client.NewEvents(trace.Events)
	}
	e, err := client.Dial(ctx, s.addr, &o)
	if err != nil {
		return nil, advised(err, s.addr)
	}
	if o.Trace != nil {
		s.rec.Follow(e, &o)
	}
	s.client, s.Traffic, s.layout = e, &Traffic{Workers: e.Workers()}, layout
	s.Session = tensor.NewSession(e, nil)
	return s, nil
}

// advised is err of a dispatcher that could not be reached, with what to do.
func advised(err error, addr string) error {
	if do := advice(err, addr); do != "" {
		return fmt.Errorf("%w; %s", err, do)
	}
	return err
}

// advice returns what helps against err of the dispatcher at addr; empty if that is not
// known.
func advice(err error, addr string) string {
	switch {
	case errors.Is(err, ipc.ErrNoListener):
		return "start one with: " + startsOne(addr)
	case errors.Is(err, route.ErrNoRoute):
		return "give the absolute path of a dispatcher's socket, or host:port"
	case errors.Is(err, ipc.ErrSecret):
		return "give the file with its secret by --secret-file"
	case errors.Is(err, ipc.ErrVersion):
		return "end that process and start one of this version: " + startsOne(addr)
	}
	return ""
}

// startsOne is the command that starts a dispatcher where none is.
func startsOne(addr string) string {
	switch {
	case addr == local.DispatcherAddr(local.Dir()):
		return "ringside up"
	case filepath.IsAbs(addr):
		return "ringside up --listen " + addr
	}
	return "ringside up --listen-tcp " + addr + " --secret-file FILE, on that host"
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

// Traffic is what went over the wire. Values per step are of all steps but the first.
type Traffic struct {
	MessagesPerStep *float64 `json:"messages_per_step,omitempty"` // from the client
	// BytesPerStep is without the batch, which lies in shared memory.
	BytesPerStep      *float64 `json:"bytes_per_step,omitempty"`
	InputBytesPerStep *float64 `json:"input_bytes_per_step,omitempty"` // of the batch
	// RoundTripsPerStep counts how often the client waited.
	RoundTripsPerStep *float64 `json:"round_trips_per_step,omitempty"`
	ProgramBodies     uint64   `json:"program_bodies_sent"`     // until the last step
	ProgramsKnown     uint64   `json:"programs_known"`          // runs without a body
	ProgramsForgotten uint64   `json:"programs_forgotten"`      // to make room
	Programs          uint64   `json:"programs"`                // of this session
	ProgramBytes      uint64   `json:"program_bytes"`           // of these
	TensorBytes       uint64   `json:"dispatcher_tensor_bytes"` // of all clients

	// With several workers: the collectives that the busiest takes part in, its transfers
	// to other stages, and the bytes that it sends in them.
	Workers            int      `json:"workers"`
	CollectivesPerStep *float64 `json:"collectives_per_step,omitempty"`
	MovedPerStep       *float64 `json:"collective_bytes_per_step,omitempty"`
	// CollectiveSeconds is the workers' mean, without transfers.
	CollectiveSeconds *float64 `json:"collective_seconds_per_step,omitempty"`
	// CollectivesHidden is the share of these while their worker computed.
	CollectivesHidden *float64 `json:"collectives_hidden,omitempty"`
	// Plans counts the programs that were rewritten for the workers.
	Plans uint64 `json:"plans,omitempty"`
	// Paths say how bytes go between the client and its workers, of a cluster of its own
	// also between the workers, and why not a faster way.
	Paths []string `json:"paths,omitempty"`

	first client.Stats
}

// started is called after the first step.
func (s *seat) started() {
	if s.client != nil {
		s.first = s.counters()
	}
}

// counters returns the engine's counters. Several workers report theirs with their
// answers to a sync.
func (s *seat) counters() client.Stats {
	if s.Workers > 1 {
		_ = s.Session.Sync() // the next sync point returns the error
	}
	return s.client.Stats()
}

// countersPatience bounds the wait for figures of the summary that others have. A
// dispatcher that does not answer must not keep the command from its end.
const countersPatience = 10 * time.Second

// trained is called after the last of n steps.
func (s *seat) trained(n int) {
	if s.client == nil {
		return
	}
	now := s.counters()
	s.ProgramBodies, s.ProgramsKnown, s.ProgramsForgotten = now.Bodies, now.Known, now.Forgotten
	s.Programs, s.ProgramBytes = now.Programs, now.ProgramBytes
	if n > 1 {
		per := func(now, first uint64) *float64 {
			x := float64(now-first) / float64(n-1)
			return &x
		}
		s.MessagesPerStep = per(now.Messages, s.first.Messages)
		s.BytesPerStep = per(now.Bytes, s.first.Bytes)
		s.InputBytesPerStep = per(now.UploadBytes, s.first.UploadBytes)
		s.RoundTripsPerStep = per(now.RoundTrips, s.first.RoundTrips)
		if s.Workers > 1 {
			s.CollectivesPerStep, s.MovedPerStep = per(now.Calls, s.first.Calls), per(now.Moved, s.first.Moved)
			s.Plans = now.Plans
			if took := now.Took - s.first.Took; took > 0 {
				seconds, hidden := took.Seconds()/float64(n-1)/float64(s.Workers), float64(now.Hidden-s.first.Hidden)/float64(took)
				s.CollectiveSeconds, s.CollectivesHidden = &seconds, &hidden
			}
		}
	}
	s.Paths = s.client.Explain()
	ctx, cancel := context.WithTimeout(context.Background(), countersPatience)
	defer cancel()
	if s.cluster != nil && s.Workers > 1 {
		if w, err := client.NewMonitor(ctx, nil, s.addr); err == nil {
			// An error leaves these lines out.
			lines, _ := workerPaths(ctx, w)
			s.Paths = append(s.Paths, lines...)
			_ = w.Close()
		}
	}
	if st, err := status(ctx, &client.Options{Secret: s.secret, TLS: s.tls}, s.addr); err == nil {
		s.TensorBytes = st.Get(metrics.TensorBytes)
	}
}

// plans adds the plan cache of the engine in this process.
func (s *seat) plans(o *outcome) {
	if s.device != nil {
		st := s.device.Stats()
		o.PlanCacheHits, o.PlanCacheMisses, o.PlanCacheEvicted = &st.Hits, &st.Misses, &st.Evicted
		o.PlanCachePlans, o.PlanCacheBytes = &st.Plans, &st.PlanBytes
	}
}
