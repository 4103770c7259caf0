package collective

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/ringside-go/ringside/collective/protocol"
	"github.com/ringside-go/ringside/collective/rendezvous"
	"github.com/ringside-go/ringside/net/route"
)

// Init makes the group of all processes that one launcher started: ringside run,
// torchrun, mpirun (Open MPI or MPICH), srun, a Kubernetes indexed job; without any of
// them, a group of one rank. The launcher's environment variables say which rank this is
// and where rank 0 is: package rendezvous lists them, Options.World overrides them. Every
// process calls Init. ctx bounds how long they wait for each other; without a deadline
// that is rendezvous.DefaultTimeout.
//
// Ranks that can open shared memory with each other use it, the others use TCP.
func Init(ctx context.Context, o *Options) (*Group, error) {
	c, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	lookup := c.Lookup
	if lookup == nil {
		lookup = os.LookupEnv
	}
	world, err := rendezvous.Resolve(lookup, c.World)
	if err != nil {
		return nil, fmt.Errorf("collective: %w", err)
	}
	c.Logger.Debug("collective: init", "world", world.String())
	ctx, cancel := context.WithTimeout(ctx, rendezvous.DefaultTimeout)
	defer cancel()
	store, err := rendezvous.Open(ctx, world, &rendezvous.Options{Logger: c.Logger})
	if err != nil {
		return nil, fmt.Errorf("collective: %v: %w", world, err)
	}
	g, err := initOver(ctx, store, &c)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("collective: %v: %w", world, err), store.Close())
	}
	// Sub-groups and survivors exchange over the group's own conns: they do not need rank
	// 0.
	if err := meet(ctx, g); err != nil {
		return nil, errors.Join(err, g.Close(), store.Close())
	}
	return g, store.Close()
}

// meet waits until all ranks have made the group, in barrier #0: the program's first call
// is #1.
func meet(ctx context.Context, g *Group) error {
	return g.lane.first(ctx, &protocol.Request{Call: protocol.Call{Kind: protocol.Barrier}})
}

// initOver makes the group of the world's ranks, which share a store.
func initOver(ctx context.Context, store *rendezvous.Store, o *Options) (*Group, error) {
	world, secret := store.World(), store.Key()
	o.Flight = FlightFolder(cmp.Or(o.Flight, world.Flight))
	o.mesh = &route.MeshOptions{Secret: secret, TLS: world.TLS, Logger: o.Logger, Bind: o.Bind}
	o.Events = cmp.Or(o.Events, world.Events)
	members, err := o.open(ctx, world.Rank, world.Size, store.AllGather)
	if err != nil {
		return nil, err
	}
	if world.Verdict != "" {
		o.verdict = &verdict{path: world.Verdict}
	}
	return o.make(ctx, world.Rank, members, world.Epoch)
}
