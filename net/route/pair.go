package route

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/local"
	"github.com/ringside-go/ringside/net/tcp"
)

// PairOptions say how two ends, which can talk to each other through a third, find a conn of their own.
type PairOptions struct {
	// Name of this end, for errors, and its role.
	Name string
	Role ipc.Role

	// Dials is set at exactly one end: the one that tries first. The other tries only if that gets nowhere, since of two hosts
	// often just one can reach the other.
	Dials bool

	// Exchange gives the other end a text of at most 8 KB and returns the other's. Both ends call it equally often, three times
	// at most.
	Exchange func(ctx context.Context, mine []byte) (theirs []byte, err error)

	// Waiter is what the conn is opened with; nil as in ipc.Options.
	Waiter ipc.Waiter

	// Secret is known to both ends and to nobody else.
	Secret []byte

	// Bind and Dir are as in MeshOptions.
	Bind, Dir string

	// Logger receives what was tried in vain. nil discards.
	Logger *slog.Logger

	// ForceTCP has the conn be an ipc.Bulk also between two ends of one host.
	ForceTCP bool
}

// maxWord bounds what an end says at a time, and maxWhy its reasons.
const (
	maxWord = 8 << 10
	maxWhy  = 2 << 10

	maxShown = 100 // bytes of an end's name in a greeting
)

// word is what an end says. First who it is: whoever listens says where. Then, whoever has dialed says which attempt got through;
// when none did, why, and where it listens itself.
type word struct {
	Name  string   `json:",omitempty"`
	Nonce string   `json:",omitempty"`
	Here  string   `json:",omitempty"` // address over shared memory, advertised
	Far   []string `json:",omitempty"` // addresses over TCP, the likeliest first
	Try   int      `json:",omitempty"` // 1: Here, 2 and on: of Far
	Why   string   `json:",omitempty"`
}

// pair is one Pair under way.
type pair struct {
	PairOptions
	nonce     string
	other     word // what it said first
	here, far ipc.Listener
}

// Pair opens a conn to the other end, over shared memory if both are on one host, else over TCP, in whichever direction the network lets
// through. Both ends call it. It sends nothing but short texts through the third. The error, ErrPair, names both ends and
// all addresses that were tried, and is the same on both.
func Pair(ctx context.Context, options PairOptions) (ipc.Conn, error) {
	if len(options.Secret) == 0 || options.Exchange == nil {
		return nil, fmt.Errorf("%w: a pair needs Secret and Exchange", ipc.ErrBadOption)
	}
	p := &pair{PairOptions: options}
	if p.Logger == nil {
		p.Logger = slog.New(slog.DiscardHandler)
	}
	if p.Dir == "" {
		p.Dir = local.Dir()
	}
	var nonce [12]byte
	rand.Read(nonce[:])
	p.nonce = hex.EncodeToString(nonce[:])
	defer p.close()
	c, err := p.connect(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w: %q and %q: %w", ErrPair, p.Name, p.other.Name, err)
	}
	return c, nil
}

// connect is the protocol: who we are, the attempt of one end, and if that fails that of the other.
func (p *pair) connect(ctx context.Context) (ipc.Conn, error) {
	first := word{Name: p.Name, Nonce: p.nonce}
	if !p.Dials {
		if err := p.listen(&first); err != nil {
			return nil, err
		}
	}
	var err error
	if p.other, err = p.exchange(ctx, first); err != nil {
		return nil, err
	}
	at, why := p.other, ""
	for _, mine := range []bool{p.Dials, !p.Dials} {
		var c ipc.Conn
		var said word
		if mine {
			if c, said, err = p.dial(ctx, &at); err != nil {
				return nil, err
			}
		}
		if mine && c == nil && why == "" {
			if err := p.listen(&said); err != nil {
				return nil, err
			}
		}
		heard, err := p.exchange(ctx, said)
		if err != nil {
			if c != nil {
				c.Close()
			}
			return nil, err
		}
		if !mine {
			said = heard
		}
		switch {
		case said.Try != 0 && mine:
			return c, nil
		case said.Try != 0:
			return p.accept(ctx, said.Try)
		}
		at.Here, at.Far = said.Here, said.Far
		why = strings.TrimPrefix(why+"; "+said.Why, "; ")
	}
	return nil, errors.New(why)
}

// exchange swaps words.
func (p *pair) exchange(ctx context.Context, mine word) (theirs word, err error) {
	src, err := json.Marshal(&mine)
	if err != nil || len(src) > maxWord {
		return theirs, fmt.Errorf("%d bytes to say, at most %d: %w", len(src), maxWord, err)
	}
	if src, err = p.Exchange(ctx, src); err != nil {
		return theirs, err
	}
	if len(src) > maxWord {
		return theirs, fmt.Errorf("the other end said %d bytes, at most %d", len(src), maxWord)
	}
	if err := json.Unmarshal(src, &theirs); err != nil {
		return theirs, fmt.Errorf("the other end said %.100q: %w", src, err)
	}
	if len(theirs.Far) > maxAddrs || len(theirs.Nonce) > 64 || len(theirs.Name) > 512 || theirs.Try < 0 || theirs.Try > maxAddrs+1 {
		return theirs, fmt.Errorf("the other end said %.100q: %d addresses, attempt %d", src, len(theirs.Far), theirs.Try)
	}
	for _, addr := range theirs.Far {
		if _, err := netip.ParseAddrPort(addr); err != nil {
			return theirs, fmt.Errorf("the other end offers %.100q: %w", addr, err)
		}
	}
	theirs.Why = theirs.Why[:min(len(theirs.Why), maxWhy)]
	return theirs, nil
}

// listen has this end be found, and says where.
func (p *pair) listen(w *word) (err error) {
	if p.far, err = tcp.New().Listen(net.JoinHostPort(p.Bind, "0"), p.options("")); err != nil {
		return err
	}
	if w.Far, err = offers(p.far.Addr()); err != nil || p.ForceTCP {
		return err
	}
	err = local.PrepareDir(p.Dir)
	if err == nil {
		_, _ = local.Sweep(p.Dir, p.Logger, Sockets)
		path := filepath.Join(p.Dir, fmt.Sprintf("%s%d-%s", Sockets, os.Getpid(), p.nonce[:12]))
		p.here, err = local.New().Listen(path, p.options(""))
	}
	if err == nil {
		w.Here, err = local.Advertise(p.here.Addr())
	}
	if err != nil {
		p.Logger.Warn("no shared memory with others of this host", "dir", p.Dir, "err", err)
	}
	return nil
}

// options are those of a conn, or of our listeners, by the name that this end goes by there.
func (p *pair) options(suffix string) *ipc.Options {
	return &ipc.Options{
		Hello:  ipc.Peer{Role: p.Role, Name: p.Name[:min(len(p.Name), maxShown)] + " " + p.nonce + suffix},
		Waiter: p.Waiter, Secret: p.Secret, Logger: p.Logger,
	}
}

// suffix tells the other end which attempt at whom a conn is.
func suffix(try int, nonce string) string { return fmt.Sprintf(" try %d for %s", try, nonce) }

// attempt is how one ended.
type attempt struct {
	try  int
	conn ipc.Conn
	err  error
}

// dial tries shared memory first, and then all addresses at once: those that are nobody's are not found out quickly. said is for
// the other end. Its error ends the pair.
func (p *pair) dial(ctx context.Context, at *word) (c ipc.Conn, said word, err error) {
	near := local.New()
	if at.Here != "" && !p.ForceTCP && near.Reaches(at.Here) {
		c, err := p.open(ctx, near, at.Here, 1)
		if err == nil {
			return c, word{Try: 1}, nil
		}
		p.Logger.Warn("an end on this host cannot be reached over shared memory", "addr", at.Here, "err", err)
	}
	all, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	results := make(chan attempt, len(at.Far))
	far := tcp.New()
	for i, addr := range at.Far {
		go func() {
			c, err := p.open(all, far, addr, i+2)
			results <- attempt{i + 2, c, err}
		}()
	}
	var failed []string
	for range at.Far {
		r := <-results
		switch {
		case r.err != nil && c == nil:
			failed = append(failed, r.err.Error())
		case r.err == nil && c == nil:
			c, said.Try = r.conn, r.try
			cancel()
		case r.err == nil:
			r.conn.Close()
		}
	}
	if c != nil {
		return c, said, nil
	}
	if failed == nil {
		failed = []string{"no address to try"}
	}
	said.Why = fmt.Sprintf("from %q: %s", p.Name, strings.Join(failed, "; "))
	said.Why = said.Why[:min(len(said.Why), maxWhy)]
	return nil, said, ipc.ContextError(ctx)
}

// open dials an address and checks who is there.
func (p *pair) open(ctx context.Context, t ipc.Transport, addr string, try int) (ipc.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	c, err := t.Dial(ctx, addr, p.options(suffix(try, p.other.Nonce)))
	if err != nil {
		return nil, err
	}
	if got := c.Peer().Name; !strings.HasSuffix(got, " "+p.other.Nonce) {
		c.Close()
		return nil, fmt.Errorf("route: %q is at %s, expected %q", got, addr, p.other.Name)
	}
	return c, nil
}

// accept takes the conn of the attempt that got through. Others are those that were a little later.
func (p *pair) accept(ctx context.Context, try int) (ipc.Conn, error) {
	from := p.far
	if try == 1 {
		from = p.here
	}
	if from == nil {
		return nil, fmt.Errorf("%w: attempt %d got through, where nobody listens", ipc.ErrCorrupt, try)
	}
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	for {
		c, err := from.Accept(ctx)
		if err != nil {
			return nil, fmt.Errorf("the other end says that it got through, which is not seen here: %w", err)
		}
		if strings.HasSuffix(c.Peer().Name, " "+p.other.Nonce+suffix(try, p.nonce)) {
			return c, nil
		}
		c.Close()
	}
}

// close ends the listeners; conns that wait to be accepted go with them.
func (p *pair) close() {
	for _, l := range []ipc.Listener{p.here, p.far} {
		if l != nil {
			_ = l.Close()
		}
	}
}
