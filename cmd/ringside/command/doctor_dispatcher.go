package command

import (
	"cmp"
	"context"
	"errors"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/local"
	"github.com/ringside-go/ringside/net/route"
	"github.com/ringside-go/ringside/tensor/cluster/client"
	"github.com/ringside-go/ringside/tensor/cluster/metrics"
)

func (h *host) dispatcher(ctx context.Context) finding {
	addr := cmp.Or(h.addr, local.DispatcherAddr(h.runtimeDir))
	s, err := client.Status(ctx, &client.Options{Secret: h.secret, TLS: h.tls}, addr)
	switch {
	case errors.Is(err, ipc.ErrNoListener) && h.addr == "":
		return found("none runs; train starts a cluster of its own, `ringside up` one that stays")
	case errors.Is(err, ipc.ErrNoListener):
		return broken("check the address, or "+advice(err, addr), "none at %s", addr)
	case errors.Is(err, route.ErrNoRoute):
		return broken(advice(err, addr), "%s is no address", addr)
	case errors.Is(err, ipc.ErrRefused) && advice(err, addr) == "":
		return broken("have it let you in, as by ringside dispatcher --allow-gid, or start one of your own: ringside up", "%s: %v", addr, err)
	case err != nil:
		unknown := "check the address and whether that process still answers; another is started by: " + startsOne(addr)
		return broken(cmp.Or(advice(err, addr), unknown), "%s: %v", addr, err)
	case s.Get(metrics.Workers) == 0:
		return warned("ringside worker", "at %s, process %d, without a worker", addr, s.Get(metrics.PID))
	}
	return found("at %s, process %d, %d workers, %d sessions", addr, s.Get(metrics.PID), s.Get(metrics.Workers), s.Get(metrics.Sessions))
}
