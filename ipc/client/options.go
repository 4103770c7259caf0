package client

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/wire"
	"github.com/ringside-go/ringside/net/route"
	"github.com/ringside-go/ringside/shm"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cpu"
)

// Options of Dial and Open. The zero value and nil are the documented defaults.
type Options struct {
	// Name of the session, for people who look at the status. Default the program's name.
	Name string

	// Addr of the dispatcher, for Open. Default the one of this user on this host; when none
	// runs there, Open runs programs in this process. An address that is given must be there.
	Addr string

	// Transport that reaches the dispatcher. Default the first of route.Order that reaches the address: TCP for
	// host:port, and with Secret.
	Transport ipc.Transport

	// Secret is shared with a dispatcher on another host.
	Secret []byte

	// Quota bounds the bytes of the session's tensors at the worker. 0: as the worker likes.
	Quota uint64

	// MaxBytes bounds the memory for uploads. 0: what the machine has.
	MaxBytes int64

	// Segment is how memory for uploads is made. Default: a sealed memfd that others only read. A
	// worker takes no other kind unless it is told to.
	Segment shm.Options

	// Session configures the session that Open makes, and CPU the engine when it is in this
	// process.
	Session *tensor.SessionOptions
	CPU     *cpu.Options

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

func (o *Options) withDefaults() (Options, error) {
	var c Options
	if o != nil {
		c = *o
	}
	if c.Name == "" {
		c.Name = filepath.Base(os.Args[0])
	}
	if len(c.Name) > wire.MaxName {
		return c, fmt.Errorf("%w: Name of %d bytes, at most %d", ipc.ErrBadOption, len(c.Name), wire.MaxName)
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, nil
}
