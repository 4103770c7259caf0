package rendezvous

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"github.com/ringside-go/ringside/ipc/local"
)

// MaxSocketPath is the longest path that fits in a sockaddr_un.
const MaxSocketPath = 107

// locate sets the socket's path if there is no address. Ranks of one host find it by the
// job's name; without a name, by the process that launched them.
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

// launcherPID returns the nearest process above this one without the variable that tells
// this one its rank. It is the same for all ranks, also with a script in between.
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

// listenAddr returns rank 0's own address: the loopback address where the others dial
// that, else all addresses of the host. The other hosts may know it by another address
// than this one does (Debian's /etc/hosts maps a host's own name to 127.0.1.1).
func listenAddr(w World) string {
	if w.MasterAddr == "" {
		return w.Socket
	}
	port := strconv.Itoa(w.MasterPort)
	if w.MasterAddr == "localhost" {
		return net.JoinHostPort(w.MasterAddr, port)
	}
	if ip := net.ParseIP(w.MasterAddr); ip != nil && ip.IsLoopback() {
		return net.JoinHostPort(w.MasterAddr, port)
	}
	return net.JoinHostPort("", port)
}

// dialAddr returns the address at which a transport reaches rank 0.
func dialAddr(w World) string {
	if w.MasterAddr == "" {
		return w.Socket
	}
	return w.Addr()
}
