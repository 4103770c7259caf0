package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"golang.org/x/sys/unix"
)

// echoBytes is the size of a message to the echo peer: about that of a Run.
const echoBytes = 64

// echoFD is where the peer finds its end of the socket: the first descriptor behind
// standard error.
const echoFD = 3

// Peer is what a peer process runs: `ringside bench-peer NAME` calls it. It returns when
// the other end is gone.
func Peer(name string) error {
	if part := parts()[name]; part != nil {
		return act(part)
	}
	if name != "echo" {
		return fmt.Errorf("%w peer %q; expected echo or a part of a play", ErrUnknown, name)
	}
	var buf [echoBytes]byte
	for {
		switch err := readFull(echoFD, buf[:]); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		if err := writeAll(echoFD, buf[:]); err != nil {
			return err
		}
	}
}

// echo is a process that sends back what it is sent, over a unix socket and with blocking
// system calls: the least that two processes can do without sharing memory.
type echo struct {
	fd  int
	cmd *exec.Cmd
}

func startEcho(o *Options) (*echo, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("bench: socket pair: %w", err)
	}
	theirs := os.NewFile(uintptr(fds[1]), "echo")
	defer theirs.Close()
	cmd := o.Self("bench-peer", "echo")
	cmd.ExtraFiles = []*os.File{theirs}
	if err := cmd.Start(); err != nil {
		unix.Close(fds[0])
		return nil, fmt.Errorf("bench: echo peer: %w", err)
	}
	return &echo{fds[0], cmd}, nil
}

func (e *echo) close() error {
	unix.Close(e.fd)
	return e.cmd.Wait()
}

// roundTrips makes n and returns what each took, in µs.
func (e *echo) roundTrips(ctx context.Context, n int) ([]float64, error) {
	var buf [echoBytes]byte
	out := make([]float64, n)
	for i := range out {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		start := time.Now()
		if err := writeAll(e.fd, buf[:]); err != nil {
			return nil, err
		}
		if err := readFull(e.fd, buf[:]); err != nil {
			return nil, err
		}
		out[i] = micros(time.Since(start))
	}
	return out, nil
}

func readFull(fd int, b []byte) error {
	for len(b) > 0 {
		n, err := unix.Read(fd, b)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return fmt.Errorf("bench: reading from the peer: %w", err)
		case n == 0:
			return io.EOF
		default:
			b = b[n:]
		}
	}
	return nil
}

func writeAll(fd int, b []byte) error {
	for len(b) > 0 {
		n, err := unix.Write(fd, b)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return fmt.Errorf("bench: writing to the peer: %w", err)
		default:
			b = b[n:]
		}
	}
	return nil
}

func micros(d time.Duration) float64 { return float64(d) / 1e3 }
func millis(d time.Duration) float64 { return float64(d) / 1e6 }
