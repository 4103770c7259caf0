package route

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/local"
)

// MeshOptions describe this rank and its way to the others.
type MeshOptions struct {
	// Rank and Size: this is rank 0 ≤ Rank < Size.
	Rank, Size int

	// Name is what errors call this rank besides its number, at most 256 bytes. Empty:
	// nothing.
	Name string

	// Role is this end's role in its conns. 0: ipc.RoleRank.
	Role ipc.Role

	// Exchange gives every rank the values of all, by rank. All ranks call it the same
	// number of times, at most five; values are below 4 KB. Not needed with Size 1.
	Exchange func(ctx context.Context, mine []byte) (all [][]byte, err error)

	// Waiter is what all conns are opened with. It must not be waited on meanwhile,
	// except by Exchange. nil: local.NewWaiter, which only the conns have then.
	Waiter ipc.Waiter

	// Secret is shared by all ranks. Without one only ranks of this host can be reached.
	Secret []byte

	// TLS is the one of ipc.Options, at all ranks or at none.
	TLS *ipc.TLS

	// Bind and Dir are where this rank listens, as in ipc.Place. Dir empty: local.Dir.
	Bind, Dir string

	// Logger receives failed attempts. nil discards.
	Logger *slog.Logger

	// Order is the transports that this rank uses, the best first. nil: Order().
	Order []ipc.Transport

	// Host makes hosts of the ranks with equal values, for tests. Empty: find out.
	Host string
}

// Member is a rank as another sees it.
type Member struct {
	Rank int

	// Name is MeshOptions.Name there.
	Name string

	// Host names the host. Ranks with equal ones have conns over shared memory with each
	// other. It begins with the name that the host gives itself, for people.
	Host string

	// Conn leads to the rank; nil for this rank itself. It has ipc.Features.Files if and
	// only if the rank's host is this one.
	Conn ipc.Conn

	Addr string // that was dialed
	PID  int
}

const (
	maxName = 256     // bytes of what a rank calls itself
	maxSize = 1 << 14 // ranks
)

// Mesh connects this rank with all others and returns the members by rank; the conns are
// the caller's. It fails on all ranks or on none, unless ctx ends meanwhile: ErrMesh,
// naming the ranks that are not connected and the addresses that were tried.
func Mesh(ctx context.Context, options MeshOptions) ([]Member, error) {
	m, err := newMesh(options)
	if err != nil {
		return nil, err
	}
	if err := m.connect(ctx); err != nil {
		m.drop()
		return nil, fmt.Errorf("%w: rank %d of %d: %w", ErrMesh, m.Rank, m.Size, err)
	}
	return m.members(), nil
}

// mesh is one Mesh under way.
type mesh struct {
	MeshOptions
	place *place
	cards []card

	conns []ipc.Conn // by rank
	via   []int      // by rank: the address that its conn was dialed at, see card.at
	near  [][]int    // by rank: the lower ranks with which it shares memory
	hosts []int      // by rank: the lowest rank of its host
	fails []error    // by rank: why it could not be reached from here
	whys  []string   // of all ranks: why they could not reach others
}

func newMesh(options MeshOptions) (*mesh, error) {
	m := &mesh{MeshOptions: options}
	switch {
	case m.Size < 1 || m.Size > maxSize:
		return nil, fmt.Errorf("%w: Size %d, expected 1 to %d", ipc.ErrBadOption, m.Size, maxSize)
	case m.Rank < 0 || m.Rank >= m.Size:
		return nil, fmt.Errorf("%w: Rank %d, expected 0 to %d", ipc.ErrBadOption, m.Rank, m.Size-1)
	case len(m.Name) > maxName:
		return nil, fmt.Errorf("%w: Name of %d bytes, expected at most %d", ipc.ErrBadOption, len(m.Name), maxName)
	case m.Size > 1 && m.Exchange == nil:
		return nil, fmt.Errorf("%w: no Exchange", ipc.ErrBadOption)
	}
	m.Logger = cmp.Or(m.Logger, slog.New(slog.DiscardHandler))
	if m.Order == nil {
		m.Order = Order()
	}
	m.Dir, m.Role = cmp.Or(m.Dir, local.Dir()), cmp.Or(m.Role, ipc.RoleRank)
	if m.Waiter == nil && m.Size > 1 {
		w, err := local.NewWaiter()
		if err != nil {
			return nil, err
		}
		m.Waiter = w
	}
	m.conns, m.via, m.near = make([]ipc.Conn, m.Size), make([]int, m.Size), make([][]int, m.Size)
	m.hosts, m.fails = make([]int, m.Size), make([]error, m.Size)
	return m, nil
}

// connect opens the conns, in rounds. In each of them some ranks dial others and then
// report to all which ones they have reached, so all ranks know after each round what is
// missing:
//
//  1. Every rank dials the lower ones.
//  2. The other way round, for those that were not reached: of two hosts often only one
//     can open connections to the other.
//  3. Without shared memory, for ranks that share it with a part of a host only.
//
// Most meshes need the first alone.
func (m *mesh) connect(ctx context.Context) (err error) {
	mine := card{Label: strings.ToValidUTF8(m.Name, "?"), Name: cmp.Or(m.Host, hostName()), Host: m.Host, PID: os.Getpid(), Nonce: rand.Text()}
	if m.cards = []card{mine}; m.Size == 1 {
		return nil
	}
	if m.place, err = listen(m.Order, ipc.Place{Dir: m.Dir, Bind: m.Bind}, &ipc.Options{
		Hello:  ipc.Peer{Role: m.Role, Name: fmt.Sprintf("rank %d of %d", m.Rank, m.Size)},
		Waiter: m.Waiter, Secret: m.Secret, TLS: m.TLS, Logger: m.Logger, Backlog: ipc.DefaultBacklog + m.Size,
	}, &mine); err != nil {
		return err
	}
	defer m.place.close()
	m.place.ranks = m.Size
	if m.cards, err = swap(ctx, &m.MeshOptions, &mine, (*card).check); err != nil {
		return err
	}
	missing, err := m.round(ctx, m.Order, func(from, to int) bool { return from > to })
	if err != nil {
		return err
	}
	if len(missing) > 0 {
		if missing, err = m.round(ctx, m.Order, func(from, to int) bool { return missing[edge{to, from}] }); err != nil {
			return err
		}
	}
	if len(missing) > 0 {
		return m.failure(missing)
	}
	m.hosts = group(m.near)
	apart := map[edge]bool{}
	for hi, near := range m.near {
		for _, lo := range near {
			if m.hosts[hi] != m.hosts[lo] {
				apart[edge{hi, lo}] = true
			}
		}
	}
	if len(apart) == 0 {
		return nil
	}
	for e := range apart {
		if r := e.other(m.Rank); r >= 0 {
			m.conns[r].Close()
			m.conns[r] = nil
		}
	}
	if missing, err = m.round(ctx, far(m.Order), func(from, to int) bool { return apart[edge{from, to}] }); err == nil && len(missing) > 0 {
		err = m.failure(missing)
	}
	return err
}

// edge is two ranks, the higher one first, that are to have a conn.
type edge struct{ hi, lo int }

// other returns the one of the two that is not rank, -1 if rank is neither.
func (e edge) other(rank int) int {
	switch rank {
	case e.hi:
		return e.lo
	case e.lo:
		return e.hi
	}
	return -1
}

// round dials the ranks to with dials(Rank, to), reports the result to all ranks, and
// accepts the conns of the ranks that have reached this one. It returns the edges that
// still have no conn.
func (m *mesh) round(ctx context.Context, order []ipc.Transport, dials func(from, to int) bool) (missing map[edge]bool, err error) {
	var mine report
	for to, a := range m.place.dialAll(ctx, order, m.cards, m.Rank, dials) {
		switch {
		case a.err != nil:
			m.fails[to] = a.err
			mine.Why += fmt.Sprintf("from %q: %v; ", m.Name, a.err)
		case a.conn != nil:
			m.conns[to], m.via[to] = a.conn, a.via
			mine.add(to, a.via)
		}
	}
	mine.Why = mine.Why[:min(len(mine.Why), maxWhy)]
	reports, err := swap(ctx, &m.MeshOptions, &mine, func(r *report, from int) error { return r.check(from, m.cards, dials) })
	if err != nil {
		return nil, err
	}
	missing = map[edge]bool{}
	for from := range m.Size {
		if why := strings.TrimSuffix(reports[from].Why, "; "); why != "" {
			m.whys = append(m.whys, why[:min(len(why), maxWhy)])
		}
		via := reports[from].reached(m.Size)
		for to := range m.Size {
			if !dials(from, to) {
				continue
			}
			e := edge{max(from, to), min(from, to)}
			switch {
			case via[to] == 0:
				missing[e] = true
				continue
			case m.cards[to].near(via[to]):
				m.near[e.hi] = append(m.near[e.hi], e.lo)
			default:
				m.near[e.hi] = slices.DeleteFunc(m.near[e.hi], func(r int) bool { return r == e.lo })
			}
			if to != m.Rank {
				continue
			}
			if m.conns[from], err = m.place.accept(ctx, meeting{m.cards[from].Nonce, m.cards[to].Nonce, uint32(via[to])}); err != nil {
				return nil, &RankError{Rank: from, Err: fmt.Errorf("it says that it got through, which is not seen here: %w", err)}
			}
		}
	}
	return missing, nil
}

// maxNamed bounds the pairs of ranks that an error names.
const maxNamed = 8

// failure returns the error about ranks without a conn. It names the same on all ranks;
// where this rank is one of them it is also a RankError with what went wrong here.
func (m *mesh) failure(missing map[edge]bool) error {
	var here error
	var named []string
	for hi := range m.Size {
		for lo := range hi {
			e := edge{hi, lo}
			if !missing[e] {
				continue
			}
			named = append(named, fmt.Sprintf("%s and %s", m.describe(lo), m.describe(hi)))
			if r := e.other(m.Rank); r >= 0 && here == nil {
				here = &RankError{Rank: r, Addr: strings.Join(m.cards[r].addrs(), ", "), Err: m.fails[r]}
			}
		}
	}
	if len(named) > maxNamed {
		named = append(named[:maxNamed], fmt.Sprintf("%d more", len(missing)-maxNamed))
	}
	err := fmt.Errorf("not connected: %s: %s", strings.Join(named, "; "), strings.Join(m.whys, "; "))
	if here != nil {
		return &sameError{err, here}
	}
	return err
}

// sameError is an error with the text that all ranks have, and the error of this one
// within.
type sameError struct{ all, here error }

func (e *sameError) Error() string { return e.all.Error() }
func (e *sameError) Unwrap() error { return e.here }

// describe names a rank, its host and its process.
func (m *mesh) describe(rank int) string {
	c := &m.cards[rank]
	return fmt.Sprintf("rank %d (%s, pid %d)", rank, strings.TrimSpace(c.Label+" "+c.Name), c.PID)
}

// members returns the result. The conns are the caller's.
func (m *mesh) members() []Member {
	members := make([]Member, m.Size)
	for r := range members {
		c := &m.cards[r]
		members[r] = Member{Rank: r, Name: c.Label, Host: c.Name, PID: c.PID, Conn: m.conns[r]}
		if m.Size > 1 {
			members[r].Host = fmt.Sprintf("%s#%d", m.cards[m.hosts[r]].Name, m.hosts[r])
			members[r].Addr = c.addr(m.via[r])
		}
	}
	return members
}

// drop closes the conns.
func (m *mesh) drop() {
	for _, c := range m.conns {
		if c != nil {
			c.Close()
		}
	}
}
