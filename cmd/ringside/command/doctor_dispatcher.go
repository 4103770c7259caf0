package command

import (
	"context"
	"errors"
	"fmt"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/client"
	"github.com/ringside-go/ringside/ipc/local"
	"github.com/ringside-go/ringside/net/route"
)

func (h *host) dispatcher(ctx context.Context) finding {
	f := finding{Name: "dispatcher", Status: good}
	addr := h.addr
	if addr == "" {
		addr = local.DispatcherAddr(h.runtimeDir)
	}
	s, err := client.Status(ctx, nil, addr)
	switch {
	case errors.Is(err, ipc.ErrNoListener):
		f.Found = "none runs; train starts a cluster of its own, `ringside up` one that stays"
		if h.addr != "" {
			f.Status, f.Found, f.Do = bad, fmt.Sprintf("none at %s", addr), "check the address, or start one with: "+startsOne(addr)
		}
	case errors.Is(err, route.ErrNoRoute):
		f.Status, f.Found, f.Do = bad, fmt.Sprintf("%s is no address", addr), "give the absolute path of a dispatcher's socket, or host:port"
	case err != nil:
		f.Status, f.Found, f.Do = bad, fmt.Sprintf("%s: %v", addr, err), "end that process and start one of this version: ringside up"
	case s.Get("workers") == 0:
		f.Status, f.Found = poor, fmt.Sprintf("at %s, process %d, without a worker", addr, s.Get("pid"))
		f.Do = "ringside worker"
	default:
		f.Found = fmt.Sprintf("at %s, process %d, %d workers, %d sessions", addr, s.Get("pid"), s.Get("workers"), s.Get("sessions"))
	}
	return f
}
