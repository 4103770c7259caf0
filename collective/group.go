package collective

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ringside-go/ringside/collective/internal/algorithm/onehost"
	"github.com/ringside-go/ringside/collective/protocol"
	"github.com/ringside-go/ringside/collective/rendezvous"
	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/net/route"
)

// Defaults of Options.
const (
	DefaultTimeout   = 30 * time.Second
	DefaultLinger    = time.Second
	DefaultMaxObject = 64 << 20
)

// Options are the options of a group. nil and the zero value are the defaults. Every rank
// must give the same Timeout, Layout and MaxObject.
type Options struct {
	// Timeout is how long a rank may keep the others waiting in a call before they fail.
	// 0: DefaultTimeout. Making a group may take DefaultTimeout all the same.
	Timeout time.Duration

	// Linger is how long Close waits for the others to close too. 0: DefaultLinger;
	// negative: not at all.
	Linger time.Duration

	// MaxObject is the largest encoded object that a rank may give to an object call. 0:
	// DefaultMaxObject.
	MaxObject int

	// Layout folds reductions as if rank r were on host Layout[r] (any numbers), so that
	// a world with another layout gives the same bits. nil: as the ranks are. It must
	// agree with the hosts of a group that has several with several ranks each.
	Layout []int

	// Flight is a folder for this rank's last calls: when a call fails because a rank
	// died, did not come or made another call, they are written to a file in it, which
	// the Error names. Old files are removed. Empty: none, but Init takes
	// RINGSIDE_FLIGHT, or a folder in the user's cache; "off" is none there too.
	Flight string

	// Events is a folder for the events of this rank: Init and InitOver make a file in it
	// to which this group, and those that Split, Sub and Shrink make of it, write each
	// call that ends, for ReadEvents. A file has at most 128 MiB. Empty: none, but Init
	// takes RINGSIDE_EVENTS, which `ringside run --trace` sets.
	Events string

	// Logger is told why a group failed, and nothing per call. nil discards.
	Logger *slog.Logger

	// Waiter is the one that the members' conns were opened with; nil if each has its
	// own.
	Waiter ipc.Waiter

	// Lookup finds environment variables for Init. nil: os.LookupEnv.
	Lookup rendezvous.Lookup

	// World says what Init should not take from the environment. nil: nothing.
	World *rendezvous.Overrides

	// Bind is the address or the name of the interface at which Init listens for other
	// hosts. Empty: every address of this one.
	Bind string

	// how the conns of sub-groups and of the group that Shrink makes are opened; nil if
	// they cannot be
	mesh *route.MeshOptions
	// the same on all of its ranks and no other group's: "world", "world/2"
	name    string
	verdict *verdict // for the launcher of the world; nil if it does not ask for it
	inWorld []int    // the ranks of the world that the group's are, nil for the same

	recorder *recorder // of this process's events; nil for none
	tape     *tape     // its part for this group; nil without one
}

// exchangeFunc returns what each rank gave, by rank.
type exchangeFunc func(ctx context.Context, mine []byte) ([][]byte, error)

// withDefaults returns a copy of o with the defaults filled in.
func (o *Options) withDefaults() (Options, error) {
	c := *cmp.Or(o, &Options{})
	if c.Timeout < 0 || c.MaxObject < 0 {
		return c, fmt.Errorf("%w: Timeout %v, MaxObject %d, expected nothing negative", ErrOption, c.Timeout, c.MaxObject)
	}
	c.Timeout = cmp.Or(c.Timeout, DefaultTimeout)
	c.Linger = cmp.Or(c.Linger, DefaultLinger)
	c.MaxObject = cmp.Or(c.MaxObject, DefaultMaxObject)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	c.name = cmp.Or(c.name, "world")
	c.Layout = append([]int(nil), c.Layout...)
	return c, nil
}

// Group is a set of ranks that make the same calls in the same order. Any goroutine may
// call it. Calls of one rank run one at a time in the order of their issue, so goroutines
// that issue calls must agree among themselves on an order that is the same on all ranks.
// Sends and receives with a tag ([SendTag]) are apart from that order.
type Group struct {
	rank, size int
	members    []string // names of ranks; empty for none
	names      []string // of hosts, by layout's host number
	layout     layout
	options    Options
	born       time.Time

	comm    comm
	whole   *onehost.Comm // comm, where all ranks are on this host; else nil
	shared  *onehost.Comm // of the ranks on this host; nil for one rank
	sharers []int         // the ranks of shared
	control *control
	lane    *lane
	tags    *tags
	barrier *Persistent // every Barrier is the same call

	// Of the running call: only the goroutine that holds the lane uses these.
	sent, received []uint64 // by rank
	self           [][]byte // sent to oneself and not yet received
	flight         flight

	told  told
	stuck atomic.Bool // a call has failed here
	// a pairing: the running send or receive, or the one that failed
	pairing  atomic.Uint64
	bytes    tally         // of destinations
	children atomic.Uint64 // sub-groups made so far: part of their names
	failure  atomic.Pointer[failure]
	// of the ranks that closed their groups, the one with the fewest calls
	left atomic.Pointer[departure]

	closing sync.Once
	leaving atomic.Bool // Close was called
	closed  atomic.Bool
	err     error // of Close
}

// New makes a group of members, which are by rank; this process is members[rank]. It
// takes ownership of the conns, also when it fails. Every member must call it. Split, Sub
// and Shrink need conns of their own, which only groups that Init or Local made can open.
func New(ctx context.Context, rank int, members []route.Member, o *Options) (*Group, error) {
	c, err := o.withDefaults()
	if err == nil && (rank < 0 || rank >= len(members)) {
		err = fmt.Errorf("%w: %d of %d members", ErrRank, rank, len(members))
	}
	if err == nil && len(c.Layout) > 0 && len(c.Layout) != len(members) {
		err = fmt.Errorf("%w: Layout has %d ranks, the group %d", ErrOption, len(c.Layout), len(members))
	}
	if err != nil {
		for _, m := range members {
			if m.Conn != nil {
				m.Conn.Close()
			}
		}
		return nil, err
	}
	keys := make([]string, len(members))
	labels := make([]string, len(members))
	for i, m := range members {
		keys[i], labels[i] = m.Host, m.Name
	}
	g := &Group{
		rank: rank, size: len(members), members: labels, layout: newLayout(keys), options: c, born: time.Now(),
		sent: make([]uint64, len(members)), received: make([]uint64, len(members)),
	}
	for _, ranks := range g.layout.hosts {
		g.names = append(g.names, keys[ranks[0]])
	}
	g.lane = newLane(g)
	g.control = newControl(g, members)
	if g.tags, err = newTags(g); err == nil {
		err = compose(ctx, g)
	}
	if err == nil {
		g.barrier = g.BarrierInit()
	}
	if err != nil {
		if pe := (*protocol.PeerError)(nil); errors.As(err, &pe) && errors.Is(pe, ErrPeerLost) && c.verdict != nil {
			f := &failure{Rank: pe.Rank, By: rank, err: pe.Err}
			f.spell()
			c.verdict.leave(f, &g.options)
		}
		g.control.close()
		return nil, fmt.Errorf("collective: rank %d of %d could not join: %w", rank, g.size, err)
	}
	if c.recorder != nil {
		g.options.tape = c.recorder.begin(g)
	}
	g.control.start()
	return g, nil
}

// Rank returns this process's number in the group, 0 to Size-1.
func (g *Group) Rank() int { return g.rank }

// Size returns the number of ranks.
func (g *Group) Size() int { return g.size }

// Hosts returns the ranks of each host, hosts in the order of their lowest rank.
func (g *Group) Hosts() [][]int {
	out := make([][]int, len(g.layout.hosts))
	for h, ranks := range g.layout.hosts {
		out[h] = append([]int(nil), ranks...)
	}
	return out
}

// Name returns a name that is the same on all ranks of the group and different from every
// other group's of this world: "world", "world/2".
func (g *Group) Name() string { return g.options.name }

// String returns a text such as "world: rank 1 of 4, 2 hosts of 2".
func (g *Group) String() string {
	return fmt.Sprintf("%s: rank %d of %d, %v", g.options.name, g.rank, g.size, g.layout)
}

// host returns the name of a rank's host.
func (g *Group) host(rank int) string { return g.names[g.layout.hostOf[rank]] }

// Close ends the group on this rank: calls under way and later ones fail with
// net.ErrClosed. It waits up to Options.Linger for the others to close too, so that no
// conn ends before all have what they called for. Ranks that are in a later call than
// this rank's last fail with ErrPeerLost. Further calls do nothing.
func (g *Group) Close() error {
	g.closing.Do(func() {
		g.leaving.Store(true)
		g.control.leave()
		g.closed.Store(true)
		g.failure.CompareAndSwap(nil, &failure{Rank: g.rank, By: g.rank, err: net.ErrClosed})
		if g.lane.busy() {
			g.comm.Abort(net.ErrClosed)
		}
		g.tags.close()
		g.lane.drain()
		g.err = errors.Join(g.comm.Close(), g.control.close())
		if t := g.options.tape; t != nil {
			g.err = errors.Join(g.err, t.close())
		}
		if w := g.options.Waiter; w != nil {
			// It holds the last context that it waited with, which may live long. Give it
			// another.
			ctx, cancel := context.WithCancel(context.Background())
			_ = w.Wait(ctx, func() bool { return true })
			cancel()
		}
	})
	return g.err
}
