package command

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"github.com/ringside-go/ringside/collective"
	"github.com/ringside-go/ringside/collective/isa"
	"github.com/ringside-go/ringside/ipc/local"
	"github.com/ringside-go/ringside/shm"
	"github.com/ringside-go/ringside/shm/limits"
	"github.com/ringside-go/ringside/tensor/cluster/worker"
	"github.com/ringside-go/ringside/tensor/cpu"
)

// coresEach returns how many cores each of so many workers of this machine gets.
func coresEach(workers int) int { return share(limits.Machine{}.Cores(), workers) }

// share returns how many cores each of so many workers gets, at most what an engine can
// use.
func share(c limits.Cores, workers int) int { return min(max(c.N/workers, 1), cpu.MaxThreads) }

// workerScore is the least oom_score_adj of a worker: the share of memory, in
// thousandths, that the kernel adds to its use before it chooses which process to kill.
const workerScore = 300

// killFirst makes the kernel choose this worker before the dispatcher and clients when
// memory runs out. While there is no dispatcher no session opens, and those of several
// workers end.
func killFirst() error {
	const file = "/proc/self/oom_score_adj"
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if score, err := strconv.Atoi(strings.TrimSpace(string(b))); err != nil || score >= workerScore {
		return err
	}
	return os.WriteFile(file, []byte(strconv.Itoa(workerScore)), 0o600)
}

// maxMiB is an exbibyte: what is above would not fit into the bytes' 63 bits.
const maxMiB = 1 << 40

// farName is a name for a worker among those of other hosts.
func farName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "worker"
	}
	return fmt.Sprintf("%.100s-%d", host, os.Getpid())
}

func newWorker() *cobra.Command {
	var (
		addr, join, name, simd, memory, on, flight string
		products, ranks                            string // libraries on a GPU
		far                                        keys
		quota, limit                               int64
		threads, work, batch                       int
		bind                                       bool
		reconnect                                  time.Duration
	)
	c := &cobra.Command{
		Use:   "worker",
		Short: "run a worker, which runs the programs of clients",
		Args:  noArgs,
		RunE: serving(func(cmd *cobra.Command, _ []string) error {
			log := logger(cmd)
			if err := mebibytes(map[string]int64{"memory-mib": limit, "session-mib": quota}); err != nil {
				return err
			}
			if threads < 0 || threads > cpu.MaxThreads {
				return usagef("--threads %d: expected 0 to %d", threads, cpu.MaxThreads)
			}
			if err := checkBatch(batch); err != nil {
				return err
			}
			if reconnect < 0 {
				return usagef("--reconnect %v: expected at least 0", reconnect)
			}
			switch {
			case join != "" && addr != "":
				return usagef("--join and --connect exclude each other")
			case join != "":
				if err := hostPort("join", join, false); err != nil {
					return err
				}
				addr = join
				if name == "" {
					name = farName()
				}
			}
			where, err := parseDevices(on)
			if err != nil {
				return err
			}
			segments, err := segmentsIn(memory)
			if err != nil {
				return err
			}
			secret, tls, err := far.read()
			if err != nil {
				return err
			}
			addr = cmp.Or(addr, local.DispatcherAddr(local.Dir()))
			o := &cpu.Options{Threads: threads, MaxBytes: limit << 20, MaxWork: work, Arena: shm.ArenaOptions{Segment: segments}}
			if simd != "" {
				level, err := isa.Parse(simd)
				if err != nil {
					return usagef("--simd: %v", err)
				}
				o.Level = &level
			}
			dev, err := where.open(cmd, o, products, ranks)
			if err != nil {
				return err
			}
			w, err := worker.New(&worker.Options{Name: name, Device: dev, Quota: uint64(quota) << 20, Secret: secret, TLS: tls, Bind: bind, Batch: batch, Reconnect: reconnect,
				Flight: collective.FlightFolder(flight), Logger: log})
			if err != nil {
				return err
			}
			if err := killFirst(); err != nil {
				log.Warn("the kernel may end the dispatcher before this worker when memory runs out", "err", err)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "worker %s, %s, at %s\n", w.Name(), dev.Info().Name, addr)
			ready(cmd)
			return advised(w.Serve(cmd.Context(), addr), addr)
		}),
	}
	f := c.Flags()
	f.StringVar(&addr, "connect", "", "address of the dispatcher (default: this user's)")
	f.StringVar(&join, "join", "", "host:port of a dispatcher on another host, see --listen-tcp of ringside up")
	far.flags(f)
	f.StringVar(&name, "name", "", "name that no other worker of the dispatcher has (default: worker-PID, with --join HOST-PID)")
	f.StringVar(&simd, "simd", "", "instruction set: go, avx2, avx512, amx or neon (default: the best there is)")
	f.IntVar(&threads, "threads", 0, "cores for one program (default: 1)")
	deviceFlag(f, &on, "the worker computes")
	productsFlag(f, &products)
	collectivesFlag(f, &ranks)
	f.BoolVar(&bind, "bind", true, "run on one core while a session has as many workers here as there are cores")
	batchFlag(f, &batch)
	f.DurationVar(&reconnect, "reconnect", 30*time.Second, "how long to look for another dispatcher when it died, and longer with sessions that go on; 0: end with it")
	flightFlag(f, &flight, "the last collectives of a session that ends because a worker died or was late")
	f.Int64Var(&limit, "memory-mib", 0, "memory for all tensors (default: what the machine has)")
	shmFlag(f, &memory)
	workFlag(f, &work)
	f.Int64Var(&quota, "session-mib", 0, "memory for the tensors of one session (default: no limit)")
	return c
}

// memfd is the value of --shm for sealed files that are in no folder.
const memfd = "memfd"

// shmFlag adds --shm.
func shmFlag(f *pflag.FlagSet, memory *string) {
	f.StringVar(memory, "shm", memfd, "where workers' tensors lie: memfd, which is sealed, or the folder of a tmpfs, such as /dev/shm, whose size bounds them")
}

// segmentsIn returns the options for the segments of a worker with that value of --shm.
func segmentsIn(memory string) (shm.Options, error) {
	o := worker.Segments()
	switch {
	case memory == memfd:
		return o, nil
	case !filepath.IsAbs(memory):
		return o, usagef("--shm %s: expected memfd, or the absolute path of a folder", memory)
	}
	var st unix.Statfs_t
	if err := unix.Statfs(memory, &st); err != nil {
		return o, usagef("--shm %s: %v", memory, err)
	}
	if st.Type != unix.TMPFS_MAGIC {
		return o, usagef("--shm %s: file system %#x, expected a tmpfs, as elsewhere tensors are written to a disk", memory, st.Type)
	}
	o.Backing, o.Dir = shm.Tmpfs, memory
	return o, nil
}

// workFlag adds --max-work.
func workFlag(f *pflag.FlagSet, work *int) {
	f.IntVar(work, "max-work", 0, "multiply-adds of one program, where an operation on an element counts as 16; -1: no limit (default: 2^50, hours of a core)")
}

// flightFlag adds --flight, the folder for what.
func flightFlag(f *pflag.FlagSet, folder *string, what string) {
	f.StringVar(folder, "flight", "", "folder for "+what+"; off: none (default: ringside/flight in this user's cache)")
}

// batchFlag adds --batch-messages.
func batchFlag(f *pflag.FlagSet, batch *int) {
	f.IntVar(batch, "batch-messages", 1, "messages of one session that a worker handles before another session has its turn")
}

// checkBatch checks --batch-messages.
func checkBatch(batch int) error {
	if batch < 1 {
		return usagef("--batch-messages %d: expected at least 1", batch)
	}
	return nil
}

// mebibytes checks flags that are sizes.
func mebibytes(flags map[string]int64) error {
	for _, flag := range slices.Sorted(maps.Keys(flags)) {
		if mib := flags[flag]; mib < 0 || mib > maxMiB {
			return usagef("--%s %d: expected 0 to %d", flag, mib, maxMiB)
		}
	}
	return nil
}
