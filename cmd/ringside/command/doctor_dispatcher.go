package command

import (
	"context"
	"errors"
	"fmt"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/local"
	"github.com/ringside-go/ringside/net/route"
	"github.com/ringside-go/ringside/tensor/cluster/client"
)

func (h *host) dispatcher(ctx context.Context) finding {
	f := finding{Name: "dispatcher", Status: good}
	addr := h.addr
	if addr == "" {
		addr = local.DispatcherAddr(h.runtimeDir)
	}
	s, err := client.Status(ctx, &client.Options{Secret: h.secret}, addr)
	switch {
	case errors.Is(err, ipc.ErrNoListener):
		f.Found = "none runs; train starts a cluster of its own, `ringside up` one that stays"
		if h.addr != "" {
			f.Status, f.Found, f.Do = bad, fmt.Sprintf("none at %s", addr), "check the address, or "+advice(err, addr)
		}
	case errors.Is(err, route.ErrNoRoute):
		f.Status, f.Found, f.Do = bad, fmt.Sprintf("%s is no address", addr), advice(err, addr)
	case err != nil:
		f.Status, f.Found, f.Do = bad, fmt.Sprintf("%s: %v", addr, err), advice(err, addr)
		switch {
		case f.Do != "":
		case errors.Is(err, ipc.ErrRefused):
			f.Do = "have it let you in, as by ringside dispatcher --allow-gid, or start one of your own: ringside up"
		default:
			f.Do = "check the address and whether that process still answers; another is started by: " + startsOne(addr)
		}
	case s.Get("workers") == 0:
		f.Status, f.Found = poor, fmt.Sprintf("at %s, process %d, without a worker", addr, s.Get("pid"))
		f.Do = "ringside worker"
	default:
		f.Found = fmt.Sprintf("at %s, process %d, %d workers, %d sessions", addr, s.Get("pid"), s.Get("workers"), s.Get("sessions"))
	}
	return f
}
