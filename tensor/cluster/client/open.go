package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/local"
	"github.com/ringside-go/ringside/tensor"
)

// Open starts a session: with the dispatcher at Options.Addr, or with the one of this
// user on this host, or, if there is none and one worker is enough, in this process, on
// Options.Local.
func Open(ctx context.Context, options *Options) (*tensor.Session, error) {
	o, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	addr := o.Addr
	addr = cmp.Or(addr, local.DispatcherAddr(local.Dir()))
	e, err := Dial(ctx, addr, &o)
	switch {
	case err == nil:
		return tensor.NewSession(e, o.Session), nil
	case o.Addr == "" && errors.Is(err, ipc.ErrNoListener) && o.Workers == 1:
		e, err := o.Local()
		if err != nil {
			return nil, err
		}
		return tensor.NewSession(e, o.Session), nil
	case errors.Is(err, ipc.ErrNoListener) && o.Workers > 1:
		return nil, fmt.Errorf("client: %d workers are asked for, which are processes of a cluster: %w; start one with: ringside up -n %d",
			o.Workers, err, o.Workers)
	}
	return nil, err
}
