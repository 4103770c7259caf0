package bench

import (
	"context"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster"
	"github.com/ringside-go/ringside/tensor/cluster/client"
	"github.com/ringside-go/ringside/tensor/cpu"
	"github.com/ringside-go/ringside/tensor/shard/config"
)

// rig is a session on something that a scenario measures.
type rig struct {
	name    string
	sess    *tensor.Session
	client  *client.Engine   // nil in-process
	cluster *cluster.Cluster // nil in-process
}

// inProcess makes a session on the cpu engine of this process.
func (r *run) inProcess(o *cpu.Options) *rig {
	s := must(cpu.NewSession(o, nil))
	r.atEnd(s.Close)
	return &rig{name: "in-process", sess: s}
}

// start starts a cluster: a dispatcher and so many workers of so many threads, each a
// process of this binary.
func (r *run) start(workers, threads int) *cluster.Cluster {
	return r.startWith(&cluster.Options{Workers: workers, Threads: threads})
}

// startWith is start with other options.
func (r *run) startWith(o *cluster.Options) *cluster.Cluster {
	o.Logger = r.Logger
	c := must(cluster.Start(context.WithoutCancel(r.ctx), o))
	r.atEnd(c.Close)
	return c
}

// dialed makes a session on a cluster.
func (r *run) dialed(c *cluster.Cluster, conf *config.Config, o *tensor.SessionOptions) *tensor.Session {
	s := tensor.NewSession(must(client.Dial(r.ctx, c.Addr(), &client.Options{Config: conf})), o)
	r.atEnd(s.Close)
	return s
}

// through makes a session on a new cluster. Of several workers each has a part of every
// batch.
func (r *run) through(workers, threads int) *rig {
	c := r.start(workers, threads)
	e := must(client.Dial(r.ctx, c.Addr(), &client.Options{Config: config.DataParallel(workers)}))
	s := tensor.NewSession(e, nil)
	r.atEnd(s.Close)
	return &rig{name: "cluster", sess: s, client: e, cluster: c}
}

// worker returns the process of the only worker.
func (g *rig) worker() (pid int) {
	for _, p := range g.cluster.Parts() {
		if p.Role == cluster.RoleWorker {
			pid = p.PID
		}
	}
	return pid
}
