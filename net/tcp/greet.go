package tcp

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/encoding"
)

// handshake is the listener's half. It returns the conn, or nil for a bulk socket that
// found its conn, and what the peer said of itself. The connection stays the caller's on
// error; the peer has then been told why, if it can be told anything. proved is called
// once the peer has proved to know the secret.
func (l *listener) handshake(c *net.TCPConn, proved func()) (made *conn, caller ipc.Peer, err error) {
	caller.Addr = c.RemoteAddr().String()
	var s *sealed
	if l.tls != nil {
		if s, err = l.listenTLS(c); err != nil {
			return nil, caller, err
		}
	}
	g := newGreeter(within(c, s), l.options.Secret)
	h, caller, err := l.admit(g)
	caller.Addr = c.RemoteAddr().String()
	if err != nil {
		if s != nil {
			err = tlsError(err, "dialer", &l.options)
		}
		return nil, caller, err
	}
	proved()
	if err := tune(c); err != nil {
		return nil, caller, err
	}
	if h.bulk {
		return nil, caller, l.admitBulk(greeted{c, s}, g, h)
	}
	made, err = l.admitConn(greeted{c, s}, g, caller, h.sums)
	return made, caller, err
}

// admit hears the caller's hello and makes it prove the secret.
func (l *listener) admit(g *greeter) (h hello, peer ipc.Peer, err error) {
	kind, fields, err := g.hear()
	switch {
	case errors.Is(err, errAlien):
		return h, peer, l.alien(g.conn, err)
	case errors.Is(err, ipc.ErrCorrupt):
		return h, peer, l.refuse(g, encoding.RefuseBroken, err)
	case err != nil:
		return h, peer, fmt.Errorf("waiting for hello: %w", err)
	case kind != kindHello:
		return h, peer, l.refuse(g, encoding.RefuseBroken, fmt.Errorf("%w: greeting of kind %d, expected hello", ipc.ErrCorrupt, kind))
	}
	if h, err = parseHello(fields); err == nil && !h.bulk {
		var m encoding.Hello
		err = encoding.ParseHello(h.wire, &m)
		peer = ipc.PeerOf(&m)
	}
	switch {
	case errors.Is(err, encoding.ErrVersion), errors.Is(err, ipc.ErrVersion):
		return h, peer, l.refuse(g, encoding.RefuseVersion, fmt.Errorf("%w: %w", ipc.ErrVersion, err))
	case err != nil:
		return h, peer, l.refuse(g, encoding.RefuseBroken, err)
	}
	nonce := make([]byte, nonceBytes)
	rand.Read(nonce)
	if err := g.say(kindChallenge, nonce); err != nil {
		return h, peer, fmt.Errorf("sending the challenge: %w", err)
	}
	want := prove(l.options.Secret, dialerLabel, g.seen.Sum(nil), nil)
	kind, proof, err := g.hear()
	switch {
	case err == nil && kind == kindProof && hmac.Equal(proof, want[:]):
		return h, peer, nil
	case err == nil:
		return h, peer, l.refuse(g, encoding.RefuseSecret, fmt.Errorf("%w: the peer does not know ours", ipc.ErrSecret))
	case errors.Is(err, ipc.ErrCorrupt), errors.Is(err, errAlien):
		return h, peer, l.refuse(g, encoding.RefuseBroken, err)
	}
	return h, peer, fmt.Errorf("waiting for the proof: %w", err)
}

// admitBulk gives the socket to the handshake of its conn.
func (l *listener) admitBulk(c greeted, g *greeter, h hello) error {
	// The welcome goes first: with the socket delivered the conn may begin to use it.
	var w welcome
	w.proof = prove(l.options.Secret, listenerLabel, g.seen.Sum(nil), nil)
	l.mu.Lock()
	expected := l.expected[h.token] != nil
	l.mu.Unlock()
	if !expected {
		return l.refuse(g, encoding.RefuseBroken, errGivenUp)
	}
	if err := g.say(kindWelcome, w.append(nil, true)); err != nil {
		return fmt.Errorf("sending welcome: %w", err)
	}
	if !l.deliver(h.token, c) {
		l.refused.Add(1)
		return errors.New("second bulk socket of a conn")
	}
	return nil
}

// admitConn welcomes the peer when it is its turn, waits for its bulk socket and makes
// the conn.
func (l *listener) admitConn(c greeted, g *greeter, peer ipc.Peer, sums uint8) (made *conn, err error) {
	if peer.Role.Ordinary() {
		if err := ipc.Crowded(c.TCPConn); err != nil {
			return nil, l.refuse(g, encoding.RefuseBusy, err)
		}
	}
	if err := l.Enter(context.Background(), func(before int) error {
		_ = c.SetDeadline(time.Now().Add(l.options.HandshakeTimeout))
		return g.say(kindBusy, ipc.Busy(before))
	}); err != nil {
		return nil, fmt.Errorf("%s %q (pid %d): waiting for its turn: %w", peer.Role, peer.Name, peer.PID, err)
	}
	defer func() {
		if err != nil {
			l.Leave()
		}
	}()
	own := encoding.Welcome(l.options.Introduce(l.options.RingBytes))
	w := welcome{sums: max(sums, l.transport.sumsOf(&l.options)), wire: encoding.AppendWelcome(nil, &own)}
	rand.Read(w.token[:])
	arrived, ok := l.expect(w.token)
	if !ok {
		return nil, net.ErrClosed
	}
	defer l.forget(w.token, arrived)
	w.proof = prove(l.options.Secret, listenerLabel, g.seen.Sum(nil), w.append(nil, false)[proofBytes:])
	if err := g.say(kindWelcome, w.append(nil, false)); err != nil {
		return nil, fmt.Errorf("sending welcome: %w", err)
	}
	timeout := time.NewTimer(l.options.HandshakeTimeout)
	defer timeout.Stop()
	select {
	case bulk := <-arrived:
		if bulk.TCPConn == nil {
			return nil, net.ErrClosed
		}
		return l.transport.newConn(c, bulk, w.streams(false), peer, l.options.RingBytes, &l.options, l.warnings)
	case <-timeout.C:
		return nil, fmt.Errorf("%s %q (pid %d): no bulk socket in %v", peer.Role, peer.Name, peer.PID, l.options.HandshakeTimeout)
	}
}

// alien counts a peer that speaks something else and tells it so. It returns err.
func (l *listener) alien(c io.Writer, err error) error {
	l.refused.Add(1)
	_, _ = c.Write([]byte(notRingside))
	return err
}

// refuse counts the peer among those that were told to stay out, tells it why, and
// returns the error for the log.
func (l *listener) refuse(g *greeter, reason uint32, err error) error {
	l.refused.Add(1)
	g.refuse(reason, err)
	return err
}
