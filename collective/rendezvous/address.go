package rendezvous

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/ringside-go/ringside/ipc/local"
)

// MaxSocketPath is the longest path that fits in a sockaddr_un.
const MaxSocketPath = 107

// Between two tries of a rank that waits for rank 0.
const (
	firstPause = 5 * time.Millisecond
	maxPause   = 500 * time.Millisecond
	dialTime   = 5 * time.Second // for one
)

// locate fills in the socket's path where there is no address: ranks of one host find it by the job's name, which
// without one is the process that launched them.
func locate(w *World) error {
	if w.MasterAddr != "" || w.Socket != "" {
		return nil
	}
	job := w.Job
	if job == "" {
		job = "process-" + strconv.Itoa(launcherPID(w.rankName))
	}
	runtimeDir := w.RuntimeDir
	if runtimeDir != "" { // Slurm takes the variable to nodes where the folder is not
		if _, err := os.Stat(runtimeDir); errors.Is(err, fs.ErrNotExist) {
			runtimeDir = ""
		}
	}
	dir := local.DirIn(runtimeDir)
	if err := local.PrepareDir(dir); err != nil {
		return fmt.Errorf("rendezvous: %w", err)
	}
	name := sha256.Sum256(fmt.Appendf(nil, "%s epoch %d", job, w.Epoch))
	w.Socket = filepath.Join(dir, fmt.Sprintf("rendezvous-%x", name[:8]))
	if len(w.Socket) > MaxSocketPath {
		return fmt.Errorf("%w: the socket's path %s has %d bytes, expected at most %d: choose a shorter XDG_RUNTIME_DIR",
			ErrEnvironment, w.Socket, len(w.Socket), MaxSocketPath)
	}
	return nil
}

// launcherPID is the nearest process above this one that has not the variable which tells this one its rank: it is the
// same for all ranks, also when a script stands between.
func launcherPID(rankName string) int {
	pid := os.Getppid()
	for range 64 {
		env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		if err != nil || rankName == "" || !bytes.Contains(append([]byte{0}, env...), []byte("\x00"+rankName+"=")) {
			break
		}
		// "pid (name) state ppid ...", where the name may have anything in it.
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			break
		}
		rest := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if len(rest) < 2 {
			break
		}
		above, err := strconv.Atoi(string(rest[1]))
		if err != nil || above < 1 {
			break
		}
		pid = above
	}
	return pid
}

// listen opens rank 0's listener. Where the address is another's it finds out whether that is a rank 0 of this very job.
func listen(ctx context.Context, w World) (net.Listener, error) {
	network, addr := "unix", w.Socket
	if w.MasterAddr != "" {
		network, addr = "tcp", listenAddr(w)
	}
	lis, err := net.Listen(network, addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		dial, cancel := context.WithTimeout(ctx, dialTime)
		defer cancel()
		c, derr := new(net.Dialer).DialContext(dial, network, dialAddr(w))
		switch {
		case derr == nil:
			_, _, err2 := greet(c, w)
			c.Close()
			if errors.Is(err2, ErrDuplicateRank) {
				return nil, err2
			}
		case network == "unix" && errors.Is(derr, syscall.ECONNREFUSED): // its owner died
			if err := os.Remove(addr); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, fmt.Errorf("rendezvous: %w", err)
			}
			lis, err = net.Listen(network, addr)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("rendezvous: rank 0 can't listen for the others: %w", err)
	}
	if network == "unix" {
		if err := os.Chmod(addr, 0o600); err != nil {
			lis.Close()
			return nil, fmt.Errorf("rendezvous: %w", err)
		}
	}
	return lis, nil
}

// listenAddr is the loopback address where the others dial that, else all addresses of the host: which of them its name
// stands for on the others is not known here (Debian's /etc/hosts maps a host's own name to 127.0.1.1).
func listenAddr(w World) string {
	port := strconv.Itoa(w.MasterPort)
	if w.MasterAddr == "localhost" {
		return net.JoinHostPort(w.MasterAddr, port)
	}
	if ip := net.ParseIP(w.MasterAddr); ip != nil && ip.IsLoopback() {
		return net.JoinHostPort(w.MasterAddr, port)
	}
	return net.JoinHostPort("", port)
}

func dialAddr(w World) string {
	if w.MasterAddr == "" {
		return w.Socket
	}
	return w.Addr()
}

// dial tries to reach rank 0 until ctx ends.
func (c *conn) dial(ctx context.Context) error {
	begin := time.Now()
	network := "unix"
	if c.world.MasterAddr != "" {
		network = "tcp"
	}
	pause := firstPause
	for {
		try, cancel := context.WithTimeout(ctx, dialTime)
		raw, err := new(net.Dialer).DialContext(try, network, dialAddr(c.world))
		cancel()
		if err == nil {
			stop := context.AfterFunc(ctx, func() { raw.Close() })
			c.link, c.key, err = greet(raw, c.world)
			if !stop() && err == nil { // ctx ended just now
				err = ctx.Err()
			}
			if err == nil {
				return nil
			}
			raw.Close()
			if permanent(err) {
				return fmt.Errorf("rendezvous: rank %d of %d at %s: %w", c.world.Rank, c.world.Size, c.world.Addr(), err)
			}
		}
		wait := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			wait.Stop()
			return fmt.Errorf("%w: rank %d tried %s for %v: %w (%w)", ErrUnreachable, c.world.Rank, c.world.Addr(),
				time.Since(begin).Round(time.Millisecond), err, ctx.Err())
		case <-wait.C:
		}
		pause = min(2*pause, maxPause)
	}
}
