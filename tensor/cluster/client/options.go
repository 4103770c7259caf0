package client

import (
	"cmp"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/net/route"
	"github.com/ringside-go/ringside/shm"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
	"github.com/ringside-go/ringside/tensor/cpu"
	"github.com/ringside-go/ringside/tensor/device"
	"github.com/ringside-go/ringside/tensor/shard/config"
)

// Options of Dial and Open. The zero value and nil are the documented defaults.
type Options struct {
	// Name is the session's name in status reports. Default: the program's name.
	Name string

	// Addr is the dispatcher's address, for Open. Default: the one of this user on this
	// host; when none runs there, Open runs programs in this process. At an address that
	// is given a dispatcher must run.
	Addr string

	// Transport reaches the dispatcher. Default: the first of route.Order that reaches
	// the address, which is TCP for host:port, with Secret. One whose conns share no
	// memory also reaches workers on other hosts.
	Transport ipc.Transport

	// Secret is shared with a dispatcher on another host.
	Secret []byte

	// TLS is the one of ipc.Options, for conns to other hosts. nil: nothing is encrypted.
	TLS *ipc.TLS

	// Workers is the number of workers that run the session's programs together, each on
	// a part of its tensors. Default: as many as Config has, or 1. A Config that cuts
	// tensors and has no number needs one here.
	Workers int

	// Kind is the kind of device that the workers compute on. 0: the fastest kind that
	// has enough workers. With MixKinds and no Kind the workers may be of several kinds,
	// so that results may differ in their last bits.
	Kind     device.Kind
	MixKinds bool

	// Config says how the session's tensors lie on its workers. nil: whole on each of
	// them.
	Config *config.Config

	// Quota bounds the bytes of the session's tensors at the worker. 0: the worker's
	// limit.
	Quota uint64

	// Programs bounds the programs that the worker remembers for the session: at most
	// 256, the default, and 16 MiB encoded. The one that was run longest ago is forgotten
	// first, and sent again when it is run again.
	Programs int

	// MaxBytes bounds the memory for uploads. 0: as much as the machine has.
	MaxBytes int64

	// Segment is how memory for uploads is made. Default: a sealed memfd that others only
	// read. A worker accepts no other kind unless its options say so.
	Segment shm.Options

	// Trace receives what the engine does, for package trace. nil: it does not measure.
	Trace *Events

	// Flight is a folder for the last batches of the session: when it is lost, or a
	// deadline passes before an answer, they are written to a file in it, which the error
	// names. Only the newest files stay. Empty: none.
	Flight string

	// Session configures the session that Open makes.
	Session *tensor.SessionOptions

	// Local makes the engine of a session in this process. Default cpu.NewEngine(nil).
	Local func() (tensor.Engine, error)

	// Logger receives what is odd; nothing per message. nil discards.
	Logger *slog.Logger
}

// order is what a dispatcher is dialed with.
func order(given ipc.Transport) []ipc.Transport {
	if given != nil {
		return []ipc.Transport{given}
	}
	return route.Order()
}

// apart is what workers that share no memory with the client are dialed with.
func apart(given ipc.Transport) []ipc.Transport {
	if given != nil && !given.SharesMemory() {
		return []ipc.Transport{given}
	}
	return route.Apart()
}

func (o *Options) withDefaults() (Options, error) {
	c := *cmp.Or(o, &Options{})
	c.Name = cmp.Or(c.Name, filepath.Base(os.Args[0]))
	if c.Config != nil {
		if err := c.Config.Check(); err != nil {
			return c, fmt.Errorf("%w: %w", ipc.ErrBadOption, err)
		}
		if c.Config.FitsAny() {
			if c.Workers == 0 && c.Config.Cuts() {
				return c, fmt.Errorf("%w: Config cuts tensors among workers and gives no number of them: add a line to it such as workers: 2", ipc.ErrBadOption)
			}
			of := *c.Config
			of.NumWorkers = max(1, c.Workers)
			c.Config = &of
		}
		n := c.Config.Workers()
		if c.Workers != 0 && c.Workers != n {
			return c, fmt.Errorf("%w: Workers %d, Config is for %d", ipc.ErrBadOption, c.Workers, n)
		}
		c.Workers = n
	} else {
		c.Config = &config.Config{NumWorkers: max(1, c.Workers)}
	}
	c.Workers = cmp.Or(c.Workers, 1)
	if c.Workers < 0 || c.Workers > wire.MaxWorkers {
		return c, fmt.Errorf("%w: Workers %d, expected 1 to %d", ipc.ErrBadOption, c.Workers, wire.MaxWorkers)
	}
	if c.Kind != 0 && (c.MixKinds || !c.Kind.Valid()) {
		return c, fmt.Errorf("%w: %v with MixKinds %v, want a kind of device, or several", ipc.ErrBadOption, c.Kind, c.MixKinds)
	}
	c.Programs = cmp.Or(c.Programs, maxPrograms)
	if c.Programs < 0 || c.Programs > maxPrograms {
		return c, fmt.Errorf("%w: Programs %d, expected 1 to %d", ipc.ErrBadOption, c.Programs, maxPrograms)
	}
	if len(c.Name) > wire.MaxName {
		return c, fmt.Errorf("%w: Name of %d bytes, at most %d", ipc.ErrBadOption, len(c.Name), wire.MaxName)
	}
	if c.Local == nil {
		c.Local = func() (tensor.Engine, error) { return cpu.NewEngine(nil) }
	}
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	return c, nil
}
