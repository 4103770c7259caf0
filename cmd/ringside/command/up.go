package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/shm/limits"
	"github.com/ringside-go/ringside/tensor/cluster"
	"github.com/ringside-go/ringside/tensor/cluster/metrics"
	"github.com/ringside-go/ringside/tensor/cluster/worker"
	"github.com/ringside-go/ringside/tensor/cpu"
)

// unused refuses an address at which a dispatcher answers.
func unused(ctx context.Context, addr string) error {
	st, err := status(ctx, nil, addr)
	if err != nil {
		return nil // what else may be there, listening finds
	}
	return fmt.Errorf("a dispatcher runs already at %s (process %d); end it, or choose another place with --listen", addr, st.Get(metrics.PID))
}

// freePort refuses the address of --listen-tcp if it is in use, before any process is
// started.
func freePort(addr string) error {
	if addr == "" {
		return nil
	}
	l, err := net.Listen("tcp", addr)
	if errors.Is(err, unix.EADDRINUSE) {
		return fmt.Errorf("--listen-tcp: %w: %s; end the process that has it (ss -ltnp shows which), or choose another port", ipc.ErrAddrInUse, addr)
	}
	if err != nil {
		return nil // the dispatcher says why, with what it knows of the network
	}
	return l.Close()
}

// freeIn returns the memory that is left for tensors at place, a value of --shm.
func freeIn(place string) limits.Memory {
	free := (limits.Machine{}).Memory()
	var st unix.Statfs_t
	if place == memfd || unix.Statfs(place, &st) != nil {
		return free
	}
	if n := int64(st.Bavail) * st.Bsize; n < free.Free {
		free = limits.Memory{Free: n, By: "the folder " + place}
	}
	return free
}

// boundsOfSession says what a session may have of a worker, by the flags of up.
func boundsOfSession(session, memory int64, work int, free limits.Memory) string {
	mib, by := free.Free>>20, ", free now by "+free.By
	if least := min(cmp.Or(session, maxMiB), cmp.Or(memory, maxMiB)); least < maxMiB {
		mib, by = least, ""
	}
	most := "any number of"
	if work >= 0 {
		most = fmt.Sprintf("%.3g", float64(cmp.Or(work, cpu.DefaultMaxWork)))
	}
	return fmt.Sprintf("a session has at most, on each worker: %d MiB of tensors (--session-mib%s), %d segments for uploads, %d programs of %s together, %s multiply-adds in each (--max-work)",
		mib, by, worker.MaxSegments, worker.MaxPrograms, size(worker.MaxProgramBytes), most)
}

func newUp() *cobra.Command {
	var u upFlags
	c := &cobra.Command{
		Use:   "up",
		Short: "run a dispatcher and workers until interrupted",
		Long:  upHelp,
		Args:  noArgs,
		RunE:  serving(func(cmd *cobra.Command, _ []string) error { return u.run(cmd) }),
	}
	u.add(c.Flags())
	return c
}

// upFlags are the flags of up.
type upFlags struct {
	workers, work   int
	batch           int
	session, memory int64
	addr, far       string
	flight          string
	known           keys
	place, on       string
	ranks           string // see collectivesFlag
	rec             recording
	live            livePage
}

const upHelp = `Up starts a dispatcher and workers as processes, watches over them in the foreground and starts one
again that dies; a worker that dies five times before all are ready ends it. When a worker dies its
sessions end. When the dispatcher dies, sessions go on that have one worker of this host; those of
several workers or of other hosts are told to begin again. An interrupt ends all processes and
leaves nothing behind. While it runs, clients of this user find it by themselves. With --listen-tcp,
clients and workers of other hosts that have the same secret can join:

    head -c 32 /dev/urandom | base64 > secret; chmod 600 secret      and copy it to the other hosts
    ringside up --listen-tcp 10.0.0.1:7000 --secret-file secret      on one
    ringside worker --join 10.0.0.1:7000 --secret-file secret        on another

With --tls, on all hosts, what goes between them is encrypted.

--trace FILE and --log FILE write what the workers do for all clients from now on until the end; a
client of its own process adds its part with train --trace. See trace view.

--http 127.0.0.1:0 serves a live page, which this host alone reaches: workers, sessions, memory,
messages, losses of training runs, and a timeline of the last step. At /metrics it has the figures
for Prometheus.

With --device cuda there is a worker for each GPU, or -n of them in turn, and with auto too where
GPUs can be used.

Each client costs the dispatcher and its worker a descriptor. Clients for which none is left are
refused; a quarter of them, at most 256, is kept for workers and for commands such as top. To have
more: ulimit -n before up.`

// add defines the flags.
func (u *upFlags) add(f *pflag.FlagSet) {
	f.IntVarP(&u.workers, "workers", "n", min(2, runtime.NumCPU()), "number of workers; on GPUs the default is one for each")
	f.Int64Var(&u.session, "session-mib", 0, "memory for the tensors of one session on each worker (default: no limit)")
	f.Int64Var(&u.memory, "memory-mib", 0, "memory for all tensors of each worker (default: what the machine has)")
	deviceFlag(f, &u.on, "workers compute")
	collectivesFlag(f, &u.ranks)
	shmFlag(f, &u.place)
	workFlag(f, &u.work)
	batchFlag(f, &u.batch)
	flightFlag(f, &u.flight, "the dispatcher's last events and workers' last collectives when a session is lost")
	f.StringVar(&u.far, "listen-tcp", "", "host:port at which clients and workers of other hosts connect (default: none)")
	u.known.flags(f)
	u.rec.flags(f)
	u.live.flags(f)
	f.StringVar(&u.addr, "listen", "", "absolute path of the dispatcher's socket (default: this user's)")
}

// check checks the flags that no other process is needed for, and returns where the
// workers compute and their arguments.
func (u *upFlags) check() (where devices, args func(cluster.Child) []string, err error) {
	if u.workers < 1 || u.workers > cluster.MaxWorkers {
		return where, nil, usagef("-n %d: expected 1 to %d workers", u.workers, cluster.MaxWorkers)
	}
	if err := checkBatch(u.batch); err != nil {
		return where, nil, err
	}
	if err := mebibytes(map[string]int64{"session-mib": u.session, "memory-mib": u.memory}); err != nil {
		return where, nil, err
	}
	if _, err := segmentsIn(u.place); err != nil {
		return where, nil, err
	}
	if err := errors.Join(u.live.check(), u.rec.check()); err != nil {
		return where, nil, err
	}
	if where, err = parseDevices(u.on); err != nil {
		return where, nil, err
	}
	args, err = where.workerArgs(u.ranks)
	return where, args, err
}

// run is the command.
func (u *upFlags) run(cmd *cobra.Command) error {
	where, args, err := u.check()
	if err != nil {
		return err
	}
	addr, err := listenAddr(u.addr, u.far, false)
	if err != nil {
		return err
	}
	if _, _, err := u.known.read(); err != nil {
		return err
	}
	if err := unused(cmd.Context(), addr); err != nil {
		return err
	}
	if err := freePort(u.far); err != nil {
		return err
	}
	if err := u.live.listen(); err != nil {
		return err
	}
	defer u.live.end()
	c, err := u.start(cmd, addr, where, args)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := u.rec.of(cmd.Context(), c); err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	u.say(out, c)
	if err := u.live.begin(cmd, out, "cluster at "+c.Addr(), nil, c.Addr(), nil); err != nil {
		return err
	}
	defer u.live.end() // before the cluster
	ready(cmd)
	u.wait(cmd, c)
	if cmd.Context().Err() == nil {
		return c.Wait()
	}
	if err := c.Close(); err != nil {
		return err
	}
	fmt.Fprintln(out, "ended")
	return nil
}

// start starts the cluster.
func (u *upFlags) start(cmd *cobra.Command, addr string, where devices, args func(cluster.Child) []string) (*cluster.Cluster, error) {
	given := 0 // as many as there are GPUs
	if cmd.Flags().Changed("workers") {
		given = u.workers
	}
	each, err := where.forWorkers(cmd, given, u.workers)
	if err != nil {
		return nil, err
	}
	return startCluster(cmd.Context(), &cluster.Options{
		Workers: len(each), Devices: each, Args: args, Threads: coresEach(len(each)), SessionMiB: int(u.session), MemoryMiB: int(u.memory),
		Shm: u.place, MaxWork: u.work, Batch: u.batch, Flight: u.flight, Addr: addr, ListenTCP: u.far, SecretFile: u.known.file,
		TLS: u.known.tls, Restart: true, Stderr: cmd.ErrOrStderr(), Logger: logger(cmd),
	})
}

// say lists the processes and how to reach them.
func (u *upFlags) say(out io.Writer, c *cluster.Cluster) {
	for _, p := range c.Parts() {
		fmt.Fprintf(out, "%s: process %d%s\n", p.Child, p.PID, onGPU(p.Device))
	}
	fmt.Fprintln(out, boundsOfSession(u.session, u.memory, u.work, freeIn(u.place)))
	fmt.Fprintf(out, "ready at %s; an interrupt ends it\n", c.Addr())
	if u.far != "" {
		fmt.Fprintf(out, "other hosts join at %s\n", u.far)
	}
}

// wait returns when the cluster has ended or the command is to end, and ends the trace.
func (u *upFlags) wait(cmd *cobra.Command, c *cluster.Cluster) {
	var over <-chan struct{} // of the trace, before ours
	if u.rec.Recorder != nil {
		over = u.rec.Done()
	}
	for ended := false; !ended; {
		select {
		case <-over:
			over = nil
			logger(cmd).Warn("the trace has ended", "err", u.rec.end(cmd.ErrOrStderr(), cmd.ErrOrStderr()))
		case <-c.Done():
			ended = true
		case <-cmd.Context().Done():
			ended = true
		}
	}
	if e := u.rec.end(cmd.ErrOrStderr(), cmd.ErrOrStderr()); e != nil {
		logger(cmd).Warn("the trace ends early", "err", e)
	}
}
