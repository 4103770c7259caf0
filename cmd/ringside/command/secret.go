package command

import (
	"fmt"
	"net"

	"github.com/spf13/pflag"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/net/tcp"
)

// keys are what a command knows of other hosts.
type keys struct {
	file string // with the secret
	tls  ipc.TLSFiles
}

// flags adds --secret-file, --tls and those of its files.
func (k *keys) flags(f *pflag.FlagSet) {
	f.StringVar(&k.file, "secret-file", "", "file with the secret that the hosts share, 16 bytes or more, readable by you alone")
	tlsFlags(f, &k.tls)
}

// tlsFlags adds --tls and those of its files.
func tlsFlags(f *pflag.FlagSet, t *ipc.TLSFiles) {
	f.BoolVar(&t.On, "tls", false, "encrypt what goes between hosts, by TLS 1.3; the key is derived from the secret, unless there are files (on all hosts, or on none)")
	f.StringVar(&t.Cert, "tls-cert", "", "PEM file with this end's certificate")
	f.StringVar(&t.Key, "tls-key", "", "PEM file with its key, readable by you alone")
	f.StringVar(&t.CA, "tls-ca", "", "PEM file with the authorities that sign the certificates of all hosts")
}

// read reads the files; what there is none for is nil.
func (k *keys) read() (secret []byte, t *ipc.TLS, err error) {
	if k.file != "" {
		if secret, err = ipc.ReadSecret(k.file); err != nil {
			return nil, nil, fmt.Errorf("--secret-file: %w", err)
		}
	}
	if t, err = k.tls.Read(); err != nil {
		return nil, nil, fmt.Errorf("--tls-cert, --tls-key, --tls-ca: %w", err)
	}
	return secret, t, nil
}

// hostPort checks an address to listen at. It refuses port 0 unless anyPort is true,
// since the chosen port would not be printed.
func hostPort(flag, addr string, anyPort bool) error {
	_, port, err := net.SplitHostPort(addr)
	if err != nil || !tcp.New().Reaches(addr) {
		return usagef("--%s %s: expected host:port", flag, addr)
	}
	if port == "0" && !anyPort {
		return usagef("--%s %s: expected a port that others can be told", flag, addr)
	}
	return nil
}
