package tcp

import (
	"context"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/encoding"
)

const (
	// tlsLabel derives the key of both ends from the secret.
	tlsLabel = "ringside tls key"

	recordBytes  = 16 << 10 // of plain text in the longest record
	recordHeader = 5
	recordMore   = recordHeader + 1 + 16 // bytes of a record besides its plain text

	// sealBytes is how many bytes of plain text are sealed before the kernel takes them,
	// and openBytes how many it is asked for at a time.
	sealBytes = 8 * recordBytes
	openBytes = 128 << 10

	// maxUnsent bounds sealed bytes: those of a send, and answers to a peer that asks
	// for new keys.
	maxUnsent = 2 * sealBytes
)

const bothTLS = "start both ends with --tls (RINGSIDE_TLS=1), or both without"

// greeted is a connection after its greetings.
type greeted struct {
	*net.TCPConn
	tls *sealed // nil without TLS
}

// within returns what greetings are said on.
func within(c *net.TCPConn, s *sealed) io.ReadWriter {
	if s == nil {
		return c
	}
	return s.conn
}

// sealed is TLS on one socket. During the greetings it blocks as the socket does. After
// start neither direction blocks: send and read are for one goroutine each, and
// unix.EAGAIN says that the kernel takes or has nothing now.
type sealed struct {
	conn *tls.Conn
	head []byte // read ahead of the greetings, to be read again

	source func([]byte) (int, error) // of sealed bytes, after start
	at     place                     // of what was read

	buffers *buffers // after start
	owed    int      // bytes of plain text, sealed, and not yet all with the kernel

	mu     sync.Mutex
	box    *[]byte // of buffers: unsent's memory; nil while there is none
	unsent []byte  // sealed bytes
	first  int     // of unsent that the kernel has not
	iov    []unix.Iovec
}

// buffers are the memory of TLS that no conn uses now. A conn has some while it sends or
// receives.
type buffers struct {
	plain  sync.Pool // *[]byte: short buffers that share a record
	sealed sync.Pool // *[]byte: what is sealed and not sent
	opened sync.Pool // *[]byte: what has arrived and is not opened
}

// from takes a buffer of a pool.
func from(p *sync.Pool) *[]byte {
	if b, ok := p.Get().(*[]byte); ok {
		return b
	}
	return new([]byte)
}

// place is where in a record a stream of them is.
type place struct {
	header [recordHeader]byte
	have   int // bytes of it
	left   int // bytes of the record behind it
}

// pass moves on by the bytes of b.
func (p *place) pass(b []byte) {
	for len(b) > 0 {
		if p.have < recordHeader {
			n := copy(p.header[p.have:], b)
			p.have, b = p.have+n, b[n:]
			p.left = int(p.header[3])<<8 | int(p.header[4]) // of a whole header
		}
		if p.have == recordHeader {
			n := min(p.left, len(b))
			p.left, b = p.left-n, b[n:]
			if p.left == 0 {
				p.have = 0
			}
		}
	}
}

// within reports whether a part of a record has come.
func (p *place) within() bool { return p.have > 0 }

// wire is the sealed side as package tls sees it.
type wire struct {
	net.Conn
	s *sealed
}

func (w wire) Read(b []byte) (n int, err error) {
	switch s := w.s; {
	case len(s.head) > 0:
		n = copy(b, s.head)
		s.head = s.head[n:]
	case s.source != nil:
		n, err = s.source(b)
	default:
		n, err = w.Conn.Read(b)
	}
	w.s.at.pass(b[:n])
	return n, err
}

func (w wire) Write(b []byte) (int, error) {
	s := w.s
	if s.source == nil {
		return w.Conn.Write(b)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.unsent)+len(b) > maxUnsent {
		return 0, fmt.Errorf("tls: %d sealed bytes are not sent, at most %d", len(s.unsent)+len(b), maxUnsent)
	}
	if s.box == nil {
		s.box = from(&s.buffers.sealed)
		s.unsent = (*s.box)[:0]
	}
	s.unsent = append(s.unsent, b...)
	return len(b), nil
}

// dialTLS begins TLS as the dialer, and returns nil where o has none.
func dialTLS(ctx context.Context, c *net.TCPConn, o *ipc.Options) (*sealed, error) {
	config, err := tlsConfig(o)
	if config == nil || err != nil {
		return nil, err
	}
	s := &sealed{}
	s.conn = tls.Client(wire{c, s}, config)
	return s, s.conn.HandshakeContext(ctx)
}

// listenTLS begins TLS as the listener. A peer without TLS is told so, if it speaks this
// protocol.
func (l *listener) listenTLS(c *net.TCPConn) (*sealed, error) {
	s := &sealed{head: make([]byte, len(greetingMagic))}
	if n, err := io.ReadFull(c, s.head); err != nil {
		return nil, fmt.Errorf("waiting for TLS: %d bytes: %w", n, err)
	}
	switch {
	case string(s.head) == greetingMagic:
		g := newGreeter(c, nil)
		return nil, l.refuse(g, encoding.RefuseBroken, fmt.Errorf("%w: the listener speaks TLS, the dialer does not: %s", ipc.ErrTLS, bothTLS))
	case !beginsTLS(s.head):
		return nil, l.alien(c, fmt.Errorf("%w: it begins with %q", errAlien, s.head))
	}
	s.conn = tls.Server(wire{c, s}, l.tls)
	if err := s.conn.HandshakeContext(context.Background()); err != nil {
		l.refused.Add(1)
		return nil, tlsError(err, "dialer", &l.options)
	}
	return s, nil
}

// beginsTLS reports whether a connection begins with a record of a TLS handshake.
func beginsTLS(b []byte) bool { return len(b) >= 2 && b[0] == 22 && b[1] == 3 }

// tlsConfig returns the configuration of both roles, nil where o has no TLS.
func tlsConfig(o *ipc.Options) (*tls.Config, error) {
	if o.TLS == nil {
		return nil, nil
	}
	c := &tls.Config{
		MinVersion: tls.VersionTLS13,
		ClientAuth: tls.RequireAnyClientCert,
		// VerifyConnection checks, by the key or by the authority: peers have no names.
		InsecureSkipVerify:          true,
		SessionTicketsDisabled:      true,
		DynamicRecordSizingDisabled: true,
	}
	if o.TLS.Certificate != nil {
		c.Certificates = []tls.Certificate{*o.TLS.Certificate}
		c.VerifyConnection = func(s tls.ConnectionState) error { return signed(s.PeerCertificates, o.TLS.CAs) }
		return c, nil
	}
	if len(o.Secret) == 0 {
		return nil, fmt.Errorf("%w: TLS without a certificate, and no Secret to derive one from", ipc.ErrBadOption)
	}
	own, err := derived(o.Secret)
	if err != nil {
		return nil, err
	}
	c.Certificates = []tls.Certificate{own}
	public := own.PrivateKey.(ed25519.PrivateKey).Public().(ed25519.PublicKey)
	c.VerifyConnection = func(s tls.ConnectionState) error {
		if !public.Equal(s.PeerCertificates[0].PublicKey) {
			return fmt.Errorf("%w: the peer's certificate is not derived from ours", ipc.ErrSecret)
		}
		return nil
	}
	return c, nil
}

// signed checks that one of the authorities signed a peer's certificate.
func signed(chain []*x509.Certificate, authorities *x509.CertPool) error {
	between := x509.NewCertPool()
	for _, c := range chain[1:] {
		between.AddCert(c)
	}
	if _, err := chain[0].Verify(x509.VerifyOptions{
		Roots: authorities, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny},
	}); err != nil {
		return fmt.Errorf("%w: the peer's certificate %q: %w (--tls-ca names the authority that signs all)", ipc.ErrTLS, chain[0].Subject, err)
	}
	return nil
}

// derived returns a certificate whose key is a function of the secret alone.
func derived(secret []byte) (tls.Certificate, error) {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(tlsLabel))
	key := ed25519.NewKeyFromSeed(mac.Sum(nil))
	t := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)}
	der, err := x509.CreateCertificate(rand.Reader, t, t, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("tcp: TLS certificate: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}

// tlsError returns an error of the greetings with what it says of TLS. peer is the role
// of the other end.
func tlsError(err error, peer string, o *ipc.Options) error {
	var plain tls.RecordHeaderError
	var op *net.OpError
	switch {
	case errors.As(err, &plain):
		return fmt.Errorf("%w: the %s does not speak TLS: %s (%w)", ipc.ErrTLS, peer, bothTLS, err)
	case !errors.As(err, &op) || op.Op != "remote error":
	case o.TLS.Certificate == nil:
		return fmt.Errorf("%w: the %s does not accept our certificate, which is derived from ours: %w", ipc.ErrSecret, peer, err)
	default:
		return fmt.Errorf("%w: the %s does not accept our certificate: %w (--tls-ca there names the authority that signs all)", ipc.ErrTLS, peer, err)
	}
	return err
}

// start ends the time of the greetings: from now on the sealed bytes come from source,
// and memory from b.
func (s *sealed) start(b *buffers, source func([]byte) (int, error)) {
	s.buffers, s.source = b, source
}

// send seals the buffers of iov and writes them to fd as far as the kernel takes them.
// Bytes count once all of the record that they are in is with the kernel. Until then the
// caller offers them again, as it does with those that the kernel did not take.
func (s *sealed) send(fd int, iov []unix.Iovec) (n int, err error) {
	skip := 0
	for {
		if err := s.flush(fd); err != nil {
			if n > 0 {
				return n, nil // the next call says why
			}
			return 0, err
		}
		n, skip, s.owed = n+s.owed, skip+s.owed, 0
		for len(iov) > 0 && skip >= int(iov[0].Len) {
			skip -= int(iov[0].Len)
			iov = iov[1:]
		}
		if len(iov) == 0 {
			return n, nil
		}
		if err := s.seal(iov, skip); err != nil {
			return n, err
		}
	}
}

// seal seals up to sealBytes of the buffers, from skip bytes on.
func (s *sealed) seal(iov []unix.Iovec, skip int) error {
	box := from(&s.buffers.plain)
	defer s.buffers.plain.Put(box)
	plain := (*box)[:0]
	defer func() { *box = plain }()
	write := func(b []byte) error {
		s.owed += len(b)
		_, err := s.conn.Write(b)
		return sealedErr(err)
	}
	for _, v := range iov {
		b := buffer(v)[skip:]
		skip = 0
		for len(b) > 0 {
			room := sealBytes - s.owed - len(plain)
			if room == 0 {
				break
			}
			if len(plain) == 0 && len(b) >= recordBytes {
				k := min(len(b), room) &^ (recordBytes - 1)
				if k == 0 {
					return nil
				}
				if err := write(b[:k]); err != nil {
					return err
				}
				b = b[k:]
				continue
			}
			k := min(len(b), recordBytes-len(plain), room)
			plain = append(plain, b[:k]...)
			b = b[k:]
			if len(plain) == recordBytes {
				if err := write(plain); err != nil {
					return err
				}
				plain = plain[:0]
			}
		}
	}
	if len(plain) > 0 {
		return write(plain)
	}
	return nil
}

// flush writes sealed bytes to fd. unix.EAGAIN says that some are left.
func (s *sealed) flush(fd int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.first < len(s.unsent) {
		b := s.unsent[s.first:]
		s.iov = append(s.iov[:0], iovec(b))
		n, err := sendmsg(fd, s.iov, len(b))
		if err != nil {
			return err
		}
		s.first += n
	}
	s.first = 0
	if s.box != nil {
		*s.box = s.unsent
		s.buffers.sealed.Put(s.box)
		s.box, s.unsent = nil, nil
		clear(s.iov)
	}
	return nil
}

// recv opens what has arrived into the buffers of iov: 0 at the end, unix.EAGAIN when
// there is nothing now.
func (s *sealed) recv(iov []unix.Iovec) (n int, err error) {
	for _, v := range iov {
		for b := buffer(v); len(b) > 0; {
			k, err := s.read(b)
			n, b = n+k, b[k:]
			switch {
			case err != nil && n > 0:
				return n, nil // the next call says it again
			case err == io.EOF:
				return 0, nil
			case err != nil:
				return 0, err
			}
		}
	}
	return n, nil
}

// read opens what has arrived.
func (s *sealed) read(b []byte) (int, error) {
	n, err := s.conn.Read(b)
	return n, sealedErr(err)
}

// sealedErr returns an error of a sealed connection as that of the socket below it, where
// it is one. A record that is not what the peer sealed is ErrDamaged. Reading it ends
// writing too, with the same error.
func sealedErr(err error) error {
	var errno unix.Errno
	switch {
	case err == nil, err == io.EOF, errors.Is(err, net.ErrClosed):
		return err
	case err == io.ErrUnexpectedEOF:
		return io.EOF
	case errors.As(err, &errno):
		return errno
	}
	return &sealError{err}
}

// sealError is an error of package tls after the greetings.
type sealError struct{ err error }

func (e *sealError) Error() string   { return fmt.Sprintf("%v: %v", ipc.ErrDamaged, e.err) }
func (e *sealError) Unwrap() []error { return []error{ipc.ErrDamaged, e.err} }

// fromSocket returns a source that reads the socket in few system calls.
func fromSocket(s *socket, bs *buffers) func([]byte) (int, error) {
	var box *[]byte // arrived's memory; nil while there is none
	var arrived []byte
	iov := make([]unix.Iovec, 1)
	done := func() {
		bs.opened.Put(box)
		box, arrived, iov[0] = nil, nil, unix.Iovec{}
	}
	return func(b []byte) (int, error) {
		if len(arrived) == 0 {
			if box = from(&bs.opened); *box == nil {
				*box = make([]byte, openBytes)
			}
			iov[0] = iovec(*box)
			n, err := recvmsg(s.fd, iov, openBytes)
			if err == nil && n == 0 {
				err = io.EOF
			}
			if err != nil {
				done()
				return 0, err
			}
			arrived = (*box)[:n]
		}
		n := copy(b, arrived)
		if arrived = arrived[n:]; len(arrived) == 0 {
			done()
		}
		return n, nil
	}
}
