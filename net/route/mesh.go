package route

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/local"
	"github.com/ringside-go/ringside/net/tcp"
)

// MeshOptions say who this rank is and how it finds the others.
type MeshOptions struct {
	// Rank and Size: this is rank 0 ≤ Rank < Size.
	Rank, Size int

	// Name is what errors call this rank besides its number, at most 256 bytes. Empty: nothing.
	Name string

	// Exchange gives every rank the values of all, by rank. All ranks call it the same number of
	// times; values are below 4 KB. Not needed with Size 1.
	Exchange func(ctx context.Context, mine []byte) (all [][]byte, err error)

	// Waiter is what all conns are opened with. nil: local.NewWaiter, to be had from the members' conns by
	// nobody, so give one to wait on several.
	Waiter ipc.Waiter

	// Secret is shared by all ranks. Without one only ranks of this host can be reached.
	Secret []byte

	// Bind is the address or interface name to listen on for other hosts, without a port. Empty: every
	// address of this host.
	Bind string

	// Dir is where sockets for ranks of this host lie while they connect. Empty: local.Dir.
	Dir string

	// Logger receives what was tried in vain. nil discards.
	Logger *slog.Logger

	// ForceTCP has every rank be a host of its own, for tests and comparisons.
	ForceTCP bool

	// Host takes ranks of the same text for one host's and those of another for another's, for tests. Empty: find out.
	Host string
}

// Member is a rank as another sees it.
type Member struct {
	Rank int

	// Name is MeshOptions.Name there.
	Name string

	// Host names the host. Ranks with equal ones have opened conns over shared memory with each other. It begins with
	// what the host calls itself, for people.
	Host string

	// Conn leads to the rank; nil for this rank itself. Within a host it is one of ipc/local, otherwise an ipc.Bulk.
	Conn ipc.Conn

	Addr string // that was dialed or that the rank offers
	PID  int
}

const (
	// retryEvery is the time between two attempts to reach a rank.
	retryEvery = 50 * time.Millisecond

	// attemptTimeout bounds one attempt at one address, so that one that swallows everything does not keep us
	// from the next.
	attemptTimeout = 3 * time.Second

	// parallelDials bounds the attempts under way.
	parallelDials = 16

	// Sockets begins the names of ranks' sockets; the process and a nonce follow.
	Sockets = "rank-"

	// maxName bounds what a rank calls itself.
	maxName = 256

	// maxSize bounds the group.
	maxSize = 1 << 14
)

// Mesh connects this rank with all others and returns the members by rank. It returns when every conn of this
// rank is open; the conns are the caller's. It gives up when ctx is done, naming the ranks that are
// missing.
func Mesh(ctx context.Context, options MeshOptions) ([]Member, error) {
	m, err := newMesh(options)
	if err != nil {
		return nil, err
	}
	if m.Size == 1 {
		return []Member{{Rank: 0, Name: m.Name, Host: hostName(), PID: os.Getpid()}}, nil
	}
	defer m.close()
	if err := m.listen(); err != nil {
		return nil, err
	}
	members, err := m.connect(ctx)
	if err != nil {
		m.drop()
		return nil, fmt.Errorf("%w: rank %d of %d: %w", ErrMesh, m.Rank, m.Size, err)
	}
	return members, nil
}

// mesh is one Mesh under way.
type mesh struct {
	MeshOptions
	local, tcp ipc.Transport
	nonce      string // of this rank: who dials says it, so it meant us
	here, far  ipc.Listener
	cards      []card

	near   []ipc.Conn // over shared memory, by rank
	across []ipc.Conn // over TCP, by rank
}

func newMesh(options MeshOptions) (*mesh, error) {
	m := &mesh{MeshOptions: options, local: local.New(), tcp: tcp.New()}
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
	if m.Logger == nil {
		m.Logger = slog.New(slog.DiscardHandler)
	}
	if m.Dir == "" {
		m.Dir = local.Dir()
	}
	if m.Waiter == nil {
		w, err := local.NewWaiter()
		if err != nil {
			return nil, err
		}
		m.Waiter = w
	}
	var nonce [12]byte
	rand.Read(nonce[:])
	m.nonce = hex.EncodeToString(nonce[:])
	m.near, m.across = make([]ipc.Conn, m.Size), make([]ipc.Conn, m.Size)
	return m, nil
}

// listen opens the two listeners. That of this host may fail: then others are reached over TCP.
func (m *mesh) listen() (err error) {
	if m.far, err = m.tcp.Listen(net.JoinHostPort(m.bind(), "0"), m.options("")); err != nil {
		return err
	}
	if m.ForceTCP {
		return nil
	}
	err = local.PrepareDir(m.Dir)
	if err == nil {
		_, _ = local.Sweep(m.Dir, m.Logger, Sockets)
		path := filepath.Join(m.Dir, fmt.Sprintf("%s%d-%s", Sockets, os.Getpid(), m.nonce[:12]))
		m.here, err = m.local.Listen(path, m.options(""))
	}
	if err != nil {
		m.Logger.Warn("no shared memory with other ranks of this host", "dir", m.Dir, "err", err)
	}
	return nil
}

// bind is the host part of the address to listen at.
func (m *mesh) bind() string {
	if len(m.Secret) == 0 && m.Bind == "" {
		return "127.0.0.1"
	}
	if i, err := net.InterfaceByName(m.Bind); err == nil {
		if addrs, err := i.Addrs(); err == nil && len(addrs) > 0 {
			if host, _, ok := strings.Cut(addrs[0].String(), "/"); ok {
				return host
			}
		}
	}
	return m.Bind
}

// options are those of a conn to the rank that target is the nonce of.
func (m *mesh) options(target string) *ipc.Options {
	return &ipc.Options{
		Hello:  ipc.Peer{Role: ipc.RoleRank, Name: m.greeting(target)},
		Waiter: m.Waiter, Secret: m.Secret, Logger: m.Logger,
	}
}

// greeting is the name under which a rank introduces itself: who it is, and whom it wants.
func (m *mesh) greeting(target string) string {
	if target == "" {
		return fmt.Sprintf("rank %d %s", m.Rank, m.nonce)
	}
	return fmt.Sprintf("rank %d %s for %s", m.Rank, m.nonce, target)
}

// identify says which rank is at the other end of a conn that was accepted, -1 for none of ours.
func (m *mesh) identify(name string) int {
	for r, c := range m.cards {
		if r != m.Rank && name == fmt.Sprintf("rank %d %s for %s", r, c.Nonce, m.nonce) {
			return r
		}
	}
	return -1
}

// connect is the protocol of the mesh: cards, conns over shared memory, what came of them, conns over TCP.
func (m *mesh) connect(ctx context.Context) ([]Member, error) {
	if err := m.swapCards(ctx); err != nil {
		return nil, err
	}
	// Every rank dials the lower ones. Over shared memory nobody has to wait to be accepted.
	if err := m.dial(ctx, m.dialNear, func() bool { return true }); err != nil {
		return nil, err
	}
	hosts, err := m.agree(ctx)
	if err != nil {
		return nil, err
	}
	same := func(r int) bool { return hosts[r] == hosts[m.Rank] }
	if err := m.dial(ctx, func(ctx context.Context, r int) error {
		if same(r) {
			return nil
		}
		return m.dialFar(ctx, r)
	}, func() bool {
		for r := range m.Size {
			if r != m.Rank && same(r) && m.near[r] == nil || !same(r) && m.across[r] == nil {
				return false
			}
		}
		return true
	}); err != nil {
		return nil, err
	}
	members := make([]Member, m.Size)
	for r := range members {
		members[r] = Member{Rank: r, Name: m.cards[r].Label, Host: m.cards[hosts[r]].Name + "#" + fmt.Sprint(hosts[r]), PID: m.cards[r].PID}
		switch {
		case r == m.Rank:
		case same(r):
			members[r].Conn, members[r].Addr = m.near[r], m.cards[r].Here
			m.near[r] = nil
		default:
			members[r].Conn, members[r].Addr = m.across[r], m.cards[r].Far[0]
			m.across[r] = nil
		}
	}
	m.drop() // conns over shared memory with ranks that count as another host's
	return members, nil
}

// dial calls do for every lower rank, several at a time, accepts conns meanwhile, and returns when all calls have
// and enough says that no more conns are to come.
func (m *mesh) dial(ctx context.Context, do func(ctx context.Context, r int) error, enough func() bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	slots := make(chan struct{}, parallelDials)
	results := make(chan error, m.Rank)
	for r := range m.Rank {
		go func() {
			slots <- struct{}{}
			err := do(ctx, r)
			<-slots
			results <- err
			m.Waiter.Wake()
		}()
	}
	left := m.Rank
	var failed []error
	err := m.Waiter.Wait(ctx, func() bool {
		m.accept()
		for {
			select {
			case err := <-results:
				left--
				if err != nil {
					failed = append(failed, err)
				}
				continue
			default:
			}
			break
		}
		return left == 0 && (failed != nil || enough())
	})
	for ; left > 0; left-- { // they end with ctx
		cancel()
		if err := <-results; err != nil {
			failed = append(failed, err)
		}
	}
	if err != nil && failed == nil {
		failed = append(failed, m.missing(err))
	}
	return errors.Join(failed...)
}

// accept takes the conns that have come.
func (m *mesh) accept() {
	for _, l := range []struct {
		from ipc.Listener
		to   []ipc.Conn
	}{{m.here, m.near}, {m.far, m.across}} {
		if l.from == nil {
			continue
		}
		for {
			c, ok := l.from.TryAccept()
			if !ok {
				break
			}
			r := m.identify(c.Peer().Name)
			if r <= m.Rank || l.to[r] != nil {
				m.Logger.Warn("conn of somebody else", "peer", c.Peer().Name, "pid", c.Peer().PID)
				c.Close()
				continue
			}
			l.to[r] = c
		}
	}
}

// missing says which higher ranks have not connected.
func (m *mesh) missing(err error) error {
	var names []string
	for r := m.Rank + 1; r < m.Size; r++ {
		if m.near[r] == nil && m.across[r] == nil {
			c := &m.cards[r]
			names = append(names, fmt.Sprintf("%d (%s, pid %d)", r, strings.TrimSpace(c.Label+" "+c.Name), c.PID))
		}
	}
	if names == nil {
		return err
	}
	return fmt.Errorf("not connected: rank %s: %w", strings.Join(names, ", "), err)
}

// dialNear tries a rank over shared memory. Failing is no error.
func (m *mesh) dialNear(ctx context.Context, r int) error {
	card := &m.cards[r]
	if m.here == nil || card.Here == "" || card.Host != m.Host || !m.local.Reaches(card.Here) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	c, err := m.open(ctx, m.local, r, card.Here)
	if err != nil {
		m.Logger.Warn("a rank of this host cannot be reached over shared memory", "rank", r, "addr", card.Here, "err", err)
		return nil
	}
	m.near[r] = c
	return nil
}

// dialFar dials a rank over TCP until it is reached or ctx is done.
func (m *mesh) dialFar(ctx context.Context, r int) error {
	for {
		var failed []error
		for _, addr := range m.cards[r].Far {
			attempt, cancel := context.WithTimeout(ctx, attemptTimeout)
			c, err := m.open(attempt, m.tcp, r, addr)
			cancel()
			if err == nil {
				m.across[r] = c
				return nil
			}
			failed = append(failed, err)
			if errors.Is(err, ipc.ErrSecret) || errors.Is(err, ipc.ErrVersion) {
				return &RankError{Rank: r, Addr: addr, Err: err}
			}
		}
		select {
		case <-ctx.Done():
			return &RankError{Rank: r, Addr: strings.Join(m.cards[r].Far, ", "), Err: errors.Join(failed...)}
		case <-time.After(retryEvery):
		}
	}
}

// open dials an address and checks that the rank is there: a private address may be another host's as well.
func (m *mesh) open(ctx context.Context, t ipc.Transport, r int, addr string) (ipc.Conn, error) {
	c, err := t.Dial(ctx, addr, m.options(m.cards[r].Nonce))
	if err != nil {
		return nil, err
	}
	if got, want := c.Peer().Name, fmt.Sprintf("rank %d %s", r, m.cards[r].Nonce); got != want {
		c.Close()
		return nil, fmt.Errorf("route: %q is at %s, expected %q", got, addr, want)
	}
	return c, nil
}

// drop closes the conns that nobody was given.
func (m *mesh) drop() {
	for _, c := range slices.Concat(m.near, m.across) {
		if c != nil {
			c.Close()
		}
	}
}

// close ends the listeners; conns that wait to be accepted go with them.
func (m *mesh) close() {
	for _, l := range []ipc.Listener{m.here, m.far} {
		if l != nil {
			l.Close()
		}
	}
}
