package cluster

import (
	"cmp"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/local"
	"github.com/ringside-go/ringside/tensor/cluster/dispatcher"
	"github.com/ringside-go/ringside/tensor/cluster/worker"
	"github.com/ringside-go/ringside/tensor/cpu"
)

const (
	// MaxWorkers is more than a host has cores.
	MaxWorkers = 1024

	defaultGrace = 3 * time.Second

	// sockets is the prefix of the names of clusters' own sockets. The process and a
	// random number follow, so that names differ.
	sockets = "cluster-"

	// A process that dies is started again after firstPause, which doubles each time up
	// to maxPause, and after manyDeaths in a row up to longestPause. One that lived for
	// healthy begins with firstPause again.
	firstPause   = 100 * time.Millisecond
	maxPause     = 5 * time.Second
	longestPause = time.Minute
	healthy      = 10 * time.Second
	manyDeaths   = 10

	// deathsAtStart is how often in a row a worker may die before the cluster is ready.
	deathsAtStart = 5
)

// Options of Start. The zero value and nil are the documented defaults.
type Options struct {
	// Workers is the number of workers, named w0, w1, and so on. Default 1.
	Workers int

	// Threads is how many cores each worker uses for one program. Default: as the
	// worker's command line or Worker says. Cores divided by workers uses each core once.
	Threads int

	// Devices are where workers in processes of their own compute, in turn: w0 on the
	// first. They are values of the worker's --device, such as "cpu" and "cuda:1".
	// Default that of the worker.
	Devices []string

	// SessionMiB bounds the tensors of one session on a worker, MemoryMiB those of all.
	// 0: the worker's own default. Workers in this process are configured by Worker
	// instead.
	SessionMiB, MemoryMiB int

	// Shm is where the tensors of workers in processes of their own lie: "memfd", or the
	// folder of a tmpfs. Default that of the worker.
	Shm string

	// MaxWork bounds the work of one program, see cpu.Options. Default that of the
	// worker; less is no bound.
	MaxWork int

	// Batch is that of worker.Options, for workers in processes of their own. Default
	// that of the worker.
	Batch int

	// Flight is where processes of their own write their last events down: a folder, or
	// "off". Default theirs.
	Flight string

	// Addr is the dispatcher's socket. Default: a unique one in Dir. Its directory is
	// made if it does not exist.
	Addr string

	// Dir is the directory of the default socket. Default: this user's runtime directory.
	Dir string

	// ListenTCP is an address, host:port, at which the dispatcher also accepts clients
	// and workers of other hosts that know the secret in SecretFile (see ipc.ReadSecret).
	// Default none.
	ListenTCP, SecretFile string

	// TLS encrypts what goes to other hosts and comes from them. Default none.
	TLS ipc.TLSFiles

	// InProcess runs dispatcher and workers as goroutines of this process.
	InProcess bool

	// Exe is the program that the child processes run. Default this one.
	Exe string

	// Args makes the arguments of a child, without the program's name. Default
	// "dispatcher --listen ADDR" and "worker --connect ADDR --name NAME", with "--threads
	// N", "--device D", "--session-mib N", "--memory-mib N", "--shm PLACE", "--max-work
	// N" and "--batch-messages N" if those are set, and "--listen-tcp HOST:PORT" and
	// "--secret-file FILE" if ListenTCP and SecretFile are; for both "--flight FOLDER" if
	// Flight is, and of TLS "--tls" and its files.
	Args func(c Child) []string

	// Restart starts a worker again that died, and the dispatcher once it has had all
	// workers. A worker that dies five times in a row before that ends the cluster.
	Restart bool

	// StartTimeout ends Start with ErrNotReady when no other process has connected for so
	// long. Before that the log names those that are missing. Default 10 minutes.
	StartTimeout time.Duration

	// Grace is how long Close waits between asking and killing. Default 3 s.
	Grace time.Duration

	// Dispatcher and Worker configure those that run in this process. Worker is called
	// for each, with its name; the default is worker.Options of that name.
	Dispatcher *dispatcher.Options
	Worker     func(name string) (*worker.Options, error)

	// Stderr receives what the children write there, one Write at a time. nil discards
	// it, except the last lines of a child that died.
	Stderr io.Writer

	// Logger receives processes that come and go. nil discards.
	Logger *slog.Logger
}

// Child says what a child process is to be.
type Child struct {
	Role    Role
	Name    string // of a worker
	Addr    string // of the dispatcher
	Threads int    // of a worker; 0: its own default
	Device  string // of a worker; empty: its own default

	SessionMiB, MemoryMiB int // of a worker; 0: its own default
	MaxWork, Batch        int // likewise
	Shm                   string

	ListenTCP, SecretFile string // of the dispatcher; empty: none
	Flight                string // empty: its own default
	TLS                   ipc.TLSFiles
}

// Role of a child.
type Role string

// Roles of processes.
const (
	RoleDispatcher Role = "dispatcher"
	RoleWorker     Role = "worker"
)

// String returns the role, and of a worker its name.
func (c Child) String() string {
	if c.Role == RoleWorker {
		return "worker " + c.Name
	}
	return string(c.Role)
}

// DefaultArgs are the arguments that the command line of ringside takes.
func DefaultArgs(c Child) []string {
	if c.Role == RoleDispatcher {
		args := []string{"dispatcher", "--listen", c.Addr}
		if c.ListenTCP != "" {
			args = append(args, "--listen-tcp", c.ListenTCP)
		}
		if c.SecretFile != "" {
			args = append(args, "--secret-file", c.SecretFile)
		}
		return append(args, c.bothArgs()...)
	}
	args := []string{"worker", "--connect", c.Addr, "--name", c.Name}
	if c.Threads > 0 {
		args = append(args, "--threads", strconv.Itoa(c.Threads))
	}
	if c.Device != "" {
		args = append(args, "--device", c.Device)
	}
	if c.SessionMiB > 0 {
		args = append(args, "--session-mib", strconv.Itoa(c.SessionMiB))
	}
	if c.MemoryMiB > 0 {
		args = append(args, "--memory-mib", strconv.Itoa(c.MemoryMiB))
	}
	if c.Shm != "" {
		args = append(args, "--shm", c.Shm)
	}
	if c.MaxWork != 0 {
		args = append(args, "--max-work", strconv.Itoa(c.MaxWork))
	}
	if c.Batch > 0 {
		args = append(args, "--batch-messages", strconv.Itoa(c.Batch))
	}
	return append(args, c.bothArgs()...)
}

// bothArgs are the arguments that dispatchers and workers take.
func (c *Child) bothArgs() (args []string) {
	if c.Flight != "" {
		args = append(args, "--flight", c.Flight)
	}
	return append(args, TLSArgs(c.TLS)...)
}

// TLSArgs are the flags of a dispatcher or worker that say f.
func TLSArgs(f ipc.TLSFiles) (args []string) {
	if f.On {
		args = append(args, "--tls")
	}
	for flag, file := range map[string]string{"--tls-cert": f.Cert, "--tls-key": f.Key, "--tls-ca": f.CA} {
		if file != "" {
			args = append(args, flag, file)
		}
	}
	return args
}

func (o *Options) withDefaults() (Options, error) {
	c := *cmp.Or(o, &Options{})
	c.Workers = cmp.Or(c.Workers, 1)
	if c.Workers < 0 || c.Workers > MaxWorkers {
		return c, fmt.Errorf("%w: Workers %d, expected 1 to %d", ErrOption, c.Workers, MaxWorkers)
	}
	if c.Threads < 0 || c.SessionMiB < 0 || c.MemoryMiB < 0 || c.Batch < 0 || c.Grace < 0 || c.StartTimeout < 0 {
		return c, fmt.Errorf("%w: Threads %d, SessionMiB %d, MemoryMiB %d, Batch %d, StartTimeout %v, Grace %v: negative", ErrOption,
			c.Threads, c.SessionMiB, c.MemoryMiB, c.Batch, c.StartTimeout, c.Grace)
	}
	if c.Threads > cpu.MaxThreads {
		return c, fmt.Errorf("%w: Threads %d, expected at most %d", ErrOption, c.Threads, cpu.MaxThreads)
	}
	c.Grace = cmp.Or(c.Grace, defaultGrace)
	c.StartTimeout = cmp.Or(c.StartTimeout, defaultStartTimeout)
	c.Dir = cmp.Or(c.Dir, local.Dir())
	c.Addr = cmp.Or(c.Addr, filepath.Join(c.Dir, fmt.Sprintf("%s%d-%08x", sockets, os.Getpid(), rand.Uint32())))
	if c.Exe == "" && !c.InProcess {
		exe, err := os.Executable()
		if err != nil {
			return c, fmt.Errorf("cluster: finding this program: %w: mount /proc here", err)
		}
		c.Exe = exe
	}
	if c.Stderr != nil {
		c.Stderr = &oneAtATime{to: c.Stderr}
	}
	if c.Args == nil {
		c.Args = DefaultArgs
	}
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	return c, nil
}
