package bench

import (
	"context"
	"errors"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster"
	"github.com/ringside-go/ringside/tensor/cluster/client"
	"github.com/ringside-go/ringside/tensor/cpu"
)

// rig is a session on something that a scenario measures.
type rig struct {
	name  string
	sess  *tensor.Session
	close func() error

	worker int            // its process; 0 in-process
	client *client.Engine // nil in-process
}

// inProcess is a session on the cpu engine of this process.
func inProcess() (*rig, error) {
	s, err := cpu.NewSession(nil, nil)
	if err != nil {
		return nil, err
	}
	return &rig{name: "in-process", sess: s, close: s.Close}, nil
}

// throughCluster is a session on a new cluster: a dispatcher and one worker of one
// thread, each a process of this binary.
func throughCluster(ctx context.Context, o *Options) (*rig, error) { return throughThreads(ctx, o, 1) }

// nearAndFar are a session in this process and one through a new cluster; both are the
// caller's to close.
func nearAndFar(ctx context.Context, o *Options) (near, far *rig, err error) {
	if near, err = inProcess(); err != nil {
		return nil, nil, err
	}
	if far, err = throughCluster(ctx, o); err != nil {
		return nil, nil, errors.Join(err, near.close())
	}
	return near, far, nil
}

// throughThreads is throughCluster with a worker of so many threads.
func throughThreads(ctx context.Context, o *Options, threads int) (*rig, error) {
	c, err := cluster.Start(context.WithoutCancel(ctx), &cluster.Options{Workers: 1, Threads: threads, Logger: o.Logger})
	if err != nil {
		return nil, err
	}
	e, err := client.Dial(ctx, c.Addr(), nil)
	if err != nil {
		c.Close()
		return nil, err
	}
	s := tensor.NewSession(e, nil)
	g := &rig{name: "cluster", sess: s, client: e, close: func() error { return errors.Join(s.Close(), c.Close()) }}
	for _, p := range c.Parts() {
		if p.Role == cluster.RoleWorker {
			g.worker = p.PID
		}
	}
	return g, nil
}
