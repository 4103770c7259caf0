package ipc

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
)

// ErrTLS is returned when one end speaks TLS and the other does not, or when an end does
// not accept the other's certificate.
var ErrTLS = errors.New("ipc: no TLS with this peer")

// TLS has transports that cross hosts encrypt what they send, by TLS 1.3. Both ends show
// a certificate. The zero TLS derives one key for both ends from Options.Secret; an end
// accepts that key alone.
type TLS struct {
	// Certificate is this end's, with its key. nil: derived.
	Certificate *tls.Certificate

	// CAs signed the certificates of all peers; their names are not looked at. It must
	// not be nil where Certificate is not.
	CAs *x509.CertPool
}

// TLSFiles is what a command line or an environment says about TLS.
type TLSFiles struct {
	On            bool   // implied by files
	Cert, Key, CA string // PEM; all three, or none
}

// Read returns the TLS of Options: nil where f is empty. CA has the certificates of the
// authorities that sign those of peers.
func (f TLSFiles) Read() (*TLS, error) {
	switch {
	case f == TLSFiles{}:
		return nil, nil
	case f.Cert == "" && f.Key == "" && f.CA == "":
		return &TLS{}, nil
	case f.Cert == "" || f.Key == "" || f.CA == "":
		return nil, fmt.Errorf("%w: TLS certificate %q, key %q, authority %q: expected three files, or none to derive the key from the secret",
			ErrBadOption, f.Cert, f.Key, f.CA)
	}
	info, err := os.Stat(f.Key)
	if err != nil {
		return nil, fmt.Errorf("TLS key: %w", err)
	}
	if perm := info.Mode().Perm(); perm&0o077 != 0 {
		return nil, fmt.Errorf("TLS key %s: %w: mode %#o, expected 0600 (chmod 600 %s)", f.Key, ErrBadOption, perm, f.Key)
	}
	pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
	if err != nil {
		return nil, fmt.Errorf("TLS certificate %s with key %s: %w", f.Cert, f.Key, err)
	}
	text, err := os.ReadFile(f.CA)
	if err != nil {
		return nil, fmt.Errorf("TLS authority: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("TLS authority %s: %w: no certificate in it, expected PEM", f.CA, ErrBadOption)
	}
	return &TLS{Certificate: &pair, CAs: pool}, nil
}
