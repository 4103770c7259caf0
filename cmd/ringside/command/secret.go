package command

import (
	"fmt"
	"net"

	"github.com/spf13/pflag"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/net/tcp"
)

// secretFlag adds --secret-file.
func secretFlag(f *pflag.FlagSet, path *string) {
	f.StringVar(path, "secret-file", "", "file with the secret that the hosts share, 16 bytes or more, readable by you alone")
}

// readSecret reads the file of --secret-file, if there is one.
func readSecret(path string) ([]byte, error) {
	if path == "" {
		return nil, nil
	}
	secret, err := ipc.ReadSecret(path)
	if err != nil {
		return nil, fmt.Errorf("--secret-file: %w", err)
	}
	return secret, nil
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
