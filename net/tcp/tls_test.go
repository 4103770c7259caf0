package tcp_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/ipctest"
	"github.com/ringside-go/ringside/net/tcp"
)

// encrypted is the transport with TLS whatever the options say.
type encrypted struct{ *tcp.Transport }

func (encrypted) with(o *ipc.Options) *ipc.Options {
	c := ipc.Options{}
	if o != nil {
		c = *o
	}
	c.TLS = &ipc.TLS{}
	if c.Secret == nil {
		c.Secret = []byte("s")
	}
	return &c
}

func (e encrypted) Dial(ctx context.Context, addr string, o *ipc.Options) (ipc.Conn, error) {
	return e.Transport.Dial(ctx, addr, e.with(o))
}

func (e encrypted) Listen(addr string, o *ipc.Options) (ipc.Listener, error) {
	return e.Transport.Listen(addr, e.with(o))
}

func (e encrypted) ListenAny(at ipc.Place, o *ipc.Options) (ipc.Listener, []string, error) {
	return e.Transport.ListenAny(at, e.with(o))
}

// TestConformanceTLS runs the suite of every transport over TLS.
func TestConformanceTLS(t *testing.T) {
	ipctest.Run(t, func(t *testing.T) ipctest.Fixture {
		return ipctest.Fixture{Transport: encrypted{tcp.New()}, Addr: func() string { return "127.0.0.1:0" }, NoFiles: true, Bulk: true}
	})
}

// TestOneEndWithTLS checks that both ends of a connection learn that only one of them has
// TLS, or that their certificates do not fit, and what to do.
func TestOneEndWithTLS(t *testing.T) {
	ours, theirs := authority(t), authority(t)
	file := func(f ipc.TLSFiles) *ipc.TLS { return readTLS(t, f) }
	for _, c := range []struct {
		name             string
		listener, dialer ipc.Options
		want             error  // of Dial
		dialed, refused  string // the two errors have them
	}{
		{"derived", ipc.Options{TLS: &ipc.TLS{}}, ipc.Options{TLS: &ipc.TLS{}}, nil, "", ""},
		{"files", ipc.Options{TLS: file(ours)}, ipc.Options{TLS: file(ours)}, nil, "", ""},
		{"listener", ipc.Options{TLS: &ipc.TLS{}}, ipc.Options{}, ipc.ErrRefused, "start both ends with --tls", "the dialer does not: start both ends"},
		{"dialer", ipc.Options{}, ipc.Options{TLS: &ipc.TLS{}}, ipc.ErrTLS, "the listener does not speak TLS: start both ends", "it speaks TLS, this end does not: start both ends"},
		{"secrets", ipc.Options{TLS: &ipc.TLS{}}, ipc.Options{TLS: &ipc.TLS{}, Secret: []byte("another")}, ipc.ErrSecret, "not derived from ours", "does not accept our certificate"},
		{"authorities", ipc.Options{TLS: file(ours)}, ipc.Options{TLS: file(theirs)}, ipc.ErrTLS, "unknown authority", "does not accept our certificate"},
		{"dialer has files", ipc.Options{TLS: &ipc.TLS{}}, ipc.Options{TLS: file(ours)}, ipc.ErrTLS, "unknown authority", "does not accept our certificate"},
		{"listener has files", ipc.Options{TLS: file(ours)}, ipc.Options{TLS: &ipc.TLS{}}, ipc.ErrSecret, "not derived from ours", "does not accept our certificate"},
		{"only the listener's certificate fits", ipc.Options{TLS: file(theirs)}, ipc.Options{TLS: &ipc.TLS{Certificate: file(ours).Certificate, CAs: file(theirs).CAs}}, ipc.ErrTLS, "the listener does not accept our certificate", "unknown authority"},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx := testContext(t)
			failed := make(chan error, 8)
			c.listener.Secret = []byte("ours")
			c.listener.Refused = func(_ ipc.Peer, err error) { failed <- err }
			if c.dialer.Secret == nil {
				c.dialer.Secret = c.listener.Secret
			}
			tr := tcp.New()
			l, err := tr.Listen("127.0.0.1:0", &c.listener)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			conn, err := tr.Dial(ctx, l.Addr(), &c.dialer)
			if err == nil {
				conn.Close()
			}
			if !errors.Is(err, c.want) || err != nil && !strings.Contains(err.Error(), c.dialed) {
				t.Errorf("the dialer: %v, expected %v with %q", err, c.want, c.dialed)
			}
			if c.refused == "" {
				return
			}
			select {
			case err := <-failed:
				if !strings.Contains(err.Error(), c.refused) {
					t.Errorf("the listener: %v, expected %q", err, c.refused)
				}
			case <-ctx.Done():
				t.Error("the listener has no error")
			}
		})
	}
}

// TestTLSOptions checks the errors of options that do not fit.
func TestTLSOptions(t *testing.T) {
	if _, err := tcp.New().Listen("127.0.0.1:0", &ipc.Options{TLS: &ipc.TLS{}}); !errors.Is(err, ipc.ErrBadOption) || !strings.Contains(err.Error(), "Secret") {
		t.Errorf("no certificate and no secret: %v", err)
	}
	if _, err := tcp.New().Listen("127.0.0.1:0", &ipc.Options{Secret: []byte("s"), TLS: &ipc.TLS{CAs: x509.NewCertPool()}}); !errors.Is(err, ipc.ErrBadOption) {
		t.Errorf("authorities without a certificate: %v", err)
	}
	a := authority(t)
	if _, err := (ipc.TLSFiles{Cert: a.Cert, Key: a.Key}).Read(); !errors.Is(err, ipc.ErrBadOption) {
		t.Errorf("two files: %v", err)
	}
	if _, err := (ipc.TLSFiles{Cert: a.Cert, Key: a.Key, CA: a.Key}).Read(); !errors.Is(err, ipc.ErrBadOption) || !strings.Contains(err.Error(), a.Key) {
		t.Errorf("a key in place of an authority: %v", err)
	}
	if err := os.Chmod(a.Key, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Read(); !errors.Is(err, ipc.ErrBadOption) || !strings.Contains(err.Error(), "chmod 600 "+a.Key) {
		t.Errorf("a key for all to read: %v", err)
	}
	if z, err := (ipc.TLSFiles{On: true}).Read(); err != nil || z.Certificate != nil {
		t.Errorf("no files: %v, %v", z, err)
	}
}

// TestNothingReadable checks that bytes of messages and of bulk transfers are on the wire
// as they are without TLS, and are not with it.
func TestNothingReadable(t *testing.T) {
	const message, bulk = "the bytes of a message", "the bytes of a bulk transfer"
	for name, tls := range map[string]*ipc.TLS{"plain": nil, "TLS": {}} {
		t.Run(name, func(t *testing.T) {
			ctx := testContext(t)
			tr := tcp.New()
			w, acceptor := ipc.NewWaiter(), ipc.NewWaiter()
			o := &ipc.Options{Waiter: acceptor, Secret: []byte("s"), TLS: tls, Hello: ipc.Peer{Name: "a name"}}
			l, err := tr.Listen("127.0.0.1:0", o)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			tapped := tap(t, l.Addr())
			own := *o
			own.Waiter = w
			dialed, err := tr.Dial(ctx, tapped.addr, &own)
			if err != nil {
				t.Fatal(err)
			}
			defer dialed.Close()
			accepted, err := l.Accept(ctx)
			if err != nil {
				t.Fatal(err)
			}
			defer accepted.Close()
			b, err := dialed.Reserve(ctx, 1, len(message))
			if err != nil {
				t.Fatal(err)
			}
			copy(b, message)
			if err := dialed.Commit(); err != nil {
				t.Fatal(err)
			}
			if m, err := accepted.Recv(ctx); err != nil || string(m.Body) != message {
				t.Fatalf("%q, %v", m.Body, err)
			}
			// The tap keeps bytes before it forwards them, so it has all that arrived.
			done := make(chan error, 1)
			go func() { done <- newEnd(accepted, acceptor).exchange(ctx, 1, nil, [][]byte{make([]byte, len(bulk))}) }()
			if err := errors.Join(newEnd(dialed, w).exchange(ctx, 1, [][]byte{[]byte(bulk)}, nil), <-done); err != nil {
				t.Fatal(err)
			}
			for _, text := range []string{message, bulk, "a name"} {
				if got := tapped.has(text); got != (tls == nil) {
					t.Errorf("%q on the wire: %v", text, got)
				}
			}
		})
	}
}

// tapper forwards connections to a listener and keeps what the dialer sent.
type tapper struct {
	addr string
	mu   sync.Mutex
	seen [][]byte // by connection
}

func tap(t *testing.T, to string) *tapper {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &tapper{addr: l.Addr().String()}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			a, err := l.Accept()
			if err != nil {
				return
			}
			b, err := net.Dial("tcp", to)
			if err != nil {
				a.Close()
				return
			}
			p.mu.Lock()
			i := len(p.seen)
			p.seen = append(p.seen, nil)
			p.mu.Unlock()
			go func() {
				_, _ = io.Copy(io.MultiWriter(keeper{p, i}, b), a)
				b.Close()
			}()
			go func() {
				_, _ = io.Copy(a, b)
				a.Close()
			}()
		}
	}()
	return p
}

type keeper struct {
	p *tapper
	i int
}

func (k keeper) Write(b []byte) (int, error) {
	k.p.mu.Lock()
	defer k.p.mu.Unlock()
	k.p.seen[k.i] = append(k.p.seen[k.i], b...)
	return len(b), nil
}

func (p *tapper) has(text string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return bytes.Contains(bytes.Join(p.seen, nil), []byte(text))
}

// readTLS reads the files of an end.
func readTLS(t *testing.T, f ipc.TLSFiles) *ipc.TLS {
	t.Helper()
	r, err := f.Read()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// authority makes one, and a certificate that it signed.
func authority(t *testing.T) (f ipc.TLSFiles) {
	t.Helper()
	dir := t.TempDir()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	write := func(name, kind string, der []byte) string {
		path := filepath.Join(dir, name)
		must(os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
		return path
	}
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, ca, ca, caKey.Public(), caKey)
	must(err)
	f.CA = write("ca.pem", "CERTIFICATE", der)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	leaf := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "host"}, NotAfter: ca.NotAfter}
	der, err = x509.CreateCertificate(rand.Reader, leaf, ca, key.Public(), caKey)
	must(err)
	f.Cert = write("cert.pem", "CERTIFICATE", der)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	must(err)
	f.Key = write("key.pem", "PRIVATE KEY", private)
	if _, err := tls.LoadX509KeyPair(f.Cert, f.Key); err != nil {
		t.Fatal(err)
	}
	return f
}

// BenchmarkTLSCost is one exchange of that many bytes with TLS and one without, in turns.
// tcp_tls_cost is how much longer those with TLS take.
func BenchmarkTLSCost(b *testing.B) {
	ctx := testContext(b)
	for _, n := range []int{4, 1 << 10, 64 << 10, 1 << 20, 16 << 20} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			var ends [2][2]end
			for i, tls := range []*ipc.TLS{nil, {}} {
				ends[i][0], ends[i][1] = pairOver(b, ctx, waiters["polling"], tls)
			}
			var took [2]time.Duration
			var bytes [2][2][][]byte
			for i := range bytes {
				bytes[i] = [2][][]byte{{make([]byte, n)}, {make([]byte, n)}}
			}
			for tag := range uint64(b.N) {
				for i, e := range ends {
					start := time.Now()
					errA, errB := both(b,
						func() error { return e[0].exchange(ctx, tag, bytes[0][0], bytes[0][1]) },
						func() error { return e[1].exchange(ctx, tag, bytes[1][0], bytes[1][1]) })
					if errA != nil || errB != nil {
						b.Fatal(errA, errB)
					}
					took[i] += time.Since(start)
				}
			}
			b.ReportMetric(float64(took[1])/float64(took[0]), "tcp_tls_cost")
			b.ReportMetric(took[0].Seconds()/float64(b.N)*1e6, "plain-µs/op")
			b.ReportMetric(took[1].Seconds()/float64(b.N)*1e6, "tls-µs/op")
		})
	}
}
